#include "ops/attention/attention.h"

#include "base/build.h"
#include "ops/attention/attention_backend.h"
#include "ops/attention/attention_checks.h"
#include "ops/op_work.h"

namespace octavo {
void attention(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y) {
  check_attention("attention", q, k, v, args, y);
  if (q.rows() == 0) return;
  const OpSpan span(ctx, [&] { return attention_work(q, k, v, args.heads, args.causal, y); });
  if (q.device.is_cpu()) return ctx.reference ? attention_cpu(q, k, v, args, y) : attention_cpu_fast(ctx, q, k, v, args, y);
  if constexpr (build::has_cuda && kAttentionHasCuda) return attention_cuda(ctx, q, k, v, args, y);
  no_gpu_body("attention");
}

}  // namespace octavo
