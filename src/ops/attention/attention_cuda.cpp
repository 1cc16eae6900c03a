// attention on a GPU: the tensor-core kernel where it takes the tensors, else the plain one.
#include <fmt/format.h>

#include "base/log.h"
#include "device/cuda_check.h"
#include "octavo/error.h"
#include "ops/attention/attention_backend.h"
#include "ops/attention/attention_launch.h"
#include "ops/attention/attention_sm90.h"
#include "ops/op_timer.h"
#include "ops/row_launch.h"

namespace octavo {

void attention_cuda(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y) {
  check_kernel_range("attention", q.rows(), q.columns());
  check_kernel_range("attention", k.rows(), k.columns());
  const AttentionLaunch launch{.q = rows_in(q),
                               .k = rows_in(k),
                               .v = rows_in(v),
                               .y = rows_in(y),
                               .queries = q.rows(),
                               .keys = k.rows(),
                               .heads = args.heads,
                               .kv_heads = args.kv_heads,
                               .head_dim = int(q.columns() / args.heads),
                               .softmax_scale = args.softmax_scale,
                               .causal = args.causal};
  if (launch.head_dim > kMaxPlainHeadDim)
    throw Unsupported(fmt::format("attention: head_dim {} on a GPU; up to {} is built, the CPU has no limit", launch.head_dim, kMaxPlainHeadDim));
  cuda_check(cudaSetDevice(q.device.index), "attention: select device");
  // A fixed function of GPU, types and sizes: these bodies differ in their last bits (numerics.md section 8).
  const int sm = caps_of(q.device).sm;
  const bool is_sm90 = fits_attention_sm90(launch, sm), is_mma = fits_attention_mma(launch, sm);
  const bool is_turing = !is_mma && fits_attention_turing(launch, sm);
  if (log::enabled(log::Level::debug, "dispatch")) {
    log::debug("dispatch", "attention: {} queries, {} keys, head_dim {}, {}: {}", launch.queries, launch.keys, launch.head_dim, name_of(q.dtype),
               is_sm90     ? "wgmma"
               : is_mma    ? "mma.sync"
               : is_turing ? "mma.sync, Turing"
                           : "plain (no tensor cores: needs 16-bit floats of one type, head_dim 64, 128, 256 or 512, 16-byte aligned rows, sm_80, fp16 sm_75)");
  }
  note_kernel(ctx, is_sm90 ? "wgmma" : is_mma ? "mma.sync" : is_turing ? "mma.sync, Turing" : "plain");
  if (is_sm90) return launch_attention_sm90(launch, stream_of(ctx));
  if (is_turing) return launch_attention_turing(launch, stream_of(ctx));
  is_mma ? launch_attention_mma(launch, stream_of(ctx)) : launch_attention_plain(launch, stream_of(ctx));
}

}  // namespace octavo
