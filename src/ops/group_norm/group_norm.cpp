#include "ops/group_norm/group_norm.h"

#include "base/build.h"
#include "ops/checks.h"
#include "ops/group_norm/group_norm_backend.h"
#include "ops/op_work.h"

namespace octavo {

void group_norm(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& y) {
  constexpr std::string_view op = "group_norm";
  if (x.shape.rank() != 3 || !is_float(x.dtype) || !x.is_dense())
    throw InvalidArgument(fmt::format("{}: x is {}; a dense f32, bf16 or f16 map [H, W, C] is needed", op, describe(x)));
  check_memory(op, "x", x);
  if (y.shape != x.shape || !y.is_dense()) throw InvalidArgument(fmt::format("{}: y is {} but must be dense and like x {}", op, describe(y), x.shape.text()));
  check_float_matrix(op, "y", y, x.rows(), x.columns(), x.device);
  if (args.groups < 1 || x.columns() % args.groups != 0)
    throw InvalidArgument(fmt::format("{}: {} channels do not split into {} groups", op, x.columns(), args.groups));
  check_float_vector(op, "weight", args.weight, x.columns(), x.device);
  check_float_vector(op, "bias", args.bias, x.columns(), x.device);
  const OpSpan span(ctx, [&] { return row_work(op, x, bytes_of_rows(x) + bytes_of_rows(y)); });
  if (x.device.is_cpu()) return ctx.reference ? group_norm_cpu(x, args, y) : group_norm_cpu_fast(ctx, x, args, y);
  if constexpr (build::has_cuda && kGroupNormHasCuda) return group_norm_cuda(ctx, x, args, y);
  no_gpu_body(op);
}

}  // namespace octavo
