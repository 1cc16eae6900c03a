#include "ops/attention/attention_int8.h"

#include <cmath>

#include "base/build.h"
#include "ops/attention/attention_checks.h"
#include "ops/attention/attention_int8_backend.h"
#include "ops/op_work.h"
#include "quant/quantize.h"

namespace octavo {

AttentionCodes scratch_codes(ExecContext& ctx, const TensorView& q, const TensorView& k, const AttentionArgs& args) {
  const auto take = [&](DType dtype, Shape shape) {
    return TensorView(ctx.scratch->take(std::size_t(shape.elements()) * bytes_of(dtype), "attention codes"), dtype, shape, q.device);
  };
  return {.q = take(DType::s8, {q.rows(), q.columns()}),
          .k = take(DType::s8, {k.rows(), k.columns()}),
          .q_scale = take(DType::f32, {args.heads, q.rows()}),
          .k_scale = take(DType::f32, {args.kv_heads, k.rows()}),
          .v = take(DType::f16, {k.rows(), k.columns()}),
          .v_unit = take(DType::f32, {args.kv_heads})};
}

void attention_int8(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y) {
  constexpr std::string_view op = "attention_int8";
  check_attention(op, q, k, v, args, y);
  if (args.causal) throw Unsupported(fmt::format("{}: causal order is not built: the mean of the keys would carry later keys into earlier rows", op));
  if (!(args.softmax_scale > 0) || !std::isfinite(args.softmax_scale))
    throw InvalidArgument(fmt::format("{}: softmax_scale {} must be positive and finite", op, args.softmax_scale));
  if (q.columns() / args.heads > kMaxExactK)
    throw InvalidArgument(fmt::format("{}: head_dim {} may overflow int32; at most {}", op, q.columns() / args.heads, kMaxExactK));
  if (q.rows() == 0) return;
  const OpSpan span(ctx, [&] { return attention_work(q, k, v, args.heads, args.causal, y); });
  const ArenaScope scope(*ctx.scratch);
  if (q.device.is_cpu()) {
    const AttentionCodes codes = scratch_codes(ctx, q, k, args);
    attention_codes_cpu(q, k, v, args, codes);
    return attention_product_cpu(*ctx.pool, codes, args, y);
  }
  if constexpr (build::has_cuda) {
    check_attention_int8_cuda(q, k, v, args, y);
    const AttentionCodes codes = scratch_codes(ctx, q, k, args);
    attention_codes_cuda(ctx, q, k, v, args, codes);
    return attention_product_cuda(ctx, codes, args, y);
  }
  no_gpu_body(op);
}

}  // namespace octavo
