// attention_int8 on a GPU: what it takes, and the two launches.
#include <fmt/format.h>

#include "base/log.h"
#include "device/cuda_check.h"
#include "octavo/error.h"
#include "ops/attention/attention_int8_backend.h"
#include "ops/attention/attention_int8_launch.h"
#include "ops/op_timer.h"
#include "ops/row_launch.h"

namespace octavo {

void check_attention_int8_cuda(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y) {
  check_kernel_range("attention_int8", q.rows(), q.columns());
  check_kernel_range("attention_int8", k.rows(), k.columns());
  const int sm = caps_of(q.device).sm, head_dim = int(q.columns() / args.heads);
  if (sm < 80) throw Unsupported(fmt::format("attention_int8: {} is sm_{}; sm_80 or later is needed; use --attention bf16", q.device.name(), sm));
  if (!has_attention_int8_size(head_dim)) {
    throw Unsupported(fmt::format("attention_int8: head_dim {} on a GPU; 64, 128 and 256 are built, the CPU has no limit; use --attention bf16", head_dim));
  }
  if (q.dtype != k.dtype || q.dtype != v.dtype) {
    throw Unsupported(fmt::format("attention_int8: q, k and v are {}, {} and {}; on a GPU they must be of one type; use --attention bf16", name_of(q.dtype),
                                  name_of(k.dtype), name_of(v.dtype)));
  }
  for (const TensorView* rows : {&q, &k, &v, &y}) {
    if (!cuda::is_aligned(rows_in(*rows))) {
      throw Unsupported(fmt::format("attention_int8: rows of {} elements at {} are not 16-byte aligned, as its GPU body needs; use --attention bf16",
                                    rows->row_stride, fmt::ptr(rows->data)));
    }
  }
}

void attention_codes_cuda(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args,
                          const AttentionCodes& codes) {
  const ArenaScope scope(*ctx.scratch);
  const std::int64_t runs = (k.rows() + kMeanRun - 1) / kMeanRun;
  const auto take = [&](std::int64_t count) { return ctx.scratch->take(std::size_t(count) * 4, "sums of keys"); };
  cuda_check(cudaSetDevice(q.device.index), "attention_int8: select device");
  launch_attention_codes({.q = rows_in(q),
                          .k = rows_in(k),
                          .v = rows_in(v),
                          .q_codes = codes.q.as<std::int8_t>(),
                          .k_codes = codes.k.as<std::int8_t>(),
                          .q_scale = codes.q_scale.as<float>(),
                          .k_scale = codes.k_scale.as<float>(),
                          .values = codes.v.as<std::uint16_t>(),
                          .v_unit = codes.v_unit.as<float>(),
                          .run_sums = static_cast<float*>(take(runs * k.columns())),
                          .run_largest = static_cast<std::uint32_t*>(take(runs * k.columns() / 64)),
                          .mean = static_cast<float*>(take(k.columns())),
                          .queries = q.rows(),
                          .keys = k.rows(),
                          .heads = args.heads,
                          .kv_heads = args.kv_heads,
                          .head_dim = int(q.columns() / args.heads)},
                         stream_of(ctx));
}

AttentionInt8Launch product_launch(const AttentionCodes& codes, const AttentionArgs& args, const TensorView& y) {
  return {.q = codes.q.as<std::int8_t>(),
          .k = codes.k.as<std::int8_t>(),
          .q_scale = codes.q_scale.as<float>(),
          .k_scale = codes.k_scale.as<float>(),
          .v = codes.v.as<std::uint16_t>(),
          .v_unit = codes.v_unit.as<float>(),
          .y = rows_in(y),
          .queries = y.rows(),
          .keys = codes.k.rows(),
          .heads = args.heads,
          .kv_heads = args.kv_heads,
          .head_dim = int(y.columns() / args.heads),
          .softmax_scale = args.softmax_scale};
}

void attention_product_cuda(ExecContext& ctx, const AttentionCodes& codes, const AttentionArgs& args, const TensorView& y) {
  const AttentionInt8Launch launch = product_launch(codes, args, y);
  if (log::enabled(log::Level::debug, "dispatch")) {
    log::debug("dispatch", "attention_int8: {} queries, {} keys, head_dim {}: mma.sync, int8 scores, float16 sums over 64 keys", launch.queries, launch.keys,
               launch.head_dim);
  }
  note_kernel(ctx, "mma.sync int8");
  cuda_check(cudaSetDevice(y.device.index), "attention_int8: select device");
  launch_attention_int8(launch, stream_of(ctx));
}

}  // namespace octavo
