#include "ops/group_norm/group_norm.h"

#include "base/build.h"
#include "ops/checks.h"
#include "ops/group_norm/group_norm_backend.h"
#include "ops/op_work.h"

namespace octavo {
namespace {

constexpr std::string_view kOp = "group_norm";

void check_x(const TensorView& x, const GroupNormArgs& args, const TensorView& statistics) {
  if (x.shape.rank() != 3 || !is_float(x.dtype) || !x.is_dense())
    throw InvalidArgument(fmt::format("{}: x is {}; a dense f32, bf16 or f16 map [H, W, C] is needed", kOp, describe(x)));
  check_memory(kOp, "x", x);
  if (args.groups < 1 || x.columns() % args.groups != 0)
    throw InvalidArgument(fmt::format("{}: {} channels do not split into {} groups", kOp, x.columns(), args.groups));
  if (statistics.dtype != DType::f32 || statistics.shape != Shape{args.groups, 2} || !statistics.is_dense() || statistics.device != x.device)
    throw InvalidArgument(fmt::format("{}: the statistics are {}; dense f32 [{}, 2] on {} is needed", kOp, describe(statistics), args.groups, x.device.name()));
  check_memory(kOp, "statistics", statistics);
}

void check_y(const TensorView& x, const GroupNormArgs& args, const TensorView& y) {
  if (y.shape != x.shape || !y.is_dense()) throw InvalidArgument(fmt::format("{}: y is {} but must be dense and like x {}", kOp, describe(y), x.shape.text()));
  check_float_matrix(kOp, "y", y, x.rows(), x.columns(), x.device);
  check_float_vector(kOp, "weight", args.weight, x.columns(), x.device);
  check_float_vector(kOp, "bias", args.bias, x.columns(), x.device);
}

void run_statistics(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics) {
  if (x.device.is_cpu()) return ctx.reference ? group_norm_statistics_cpu(x, args, statistics) : group_norm_statistics_cpu_fast(ctx, x, args, statistics);
  if constexpr (build::has_cuda && kGroupNormHasCuda) return group_norm_statistics_cuda(ctx, x, args, statistics);
  no_gpu_body(kOp);
}

void run_apply(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics, const TensorView& y) {
  if (x.device.is_cpu()) return ctx.reference ? group_norm_apply_cpu(x, args, statistics, y) : group_norm_apply_cpu_fast(ctx, x, args, statistics, y);
  if constexpr (build::has_cuda && kGroupNormHasCuda) return group_norm_apply_cuda(ctx, x, args, statistics, y);
  no_gpu_body(kOp);
}

}  // namespace

void group_norm_statistics(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics) {
  check_x(x, args, statistics);
  const OpSpan span(ctx, [&] { return row_work(kOp, x, bytes_of_rows(x)); });
  run_statistics(ctx, x, args, statistics);
}

void group_norm_apply(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics, const TensorView& y) {
  check_x(x, args, statistics);
  check_y(x, args, y);
  const OpSpan span(ctx, [&] { return row_work(kOp, x, bytes_of_rows(x) + bytes_of_rows(y)); });
  run_apply(ctx, x, args, statistics, y);
}

void group_norm(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& y) {
  if (args.groups < 1) throw InvalidArgument(fmt::format("{}: {} channels do not split into {} groups", kOp, x.columns(), args.groups));
  const ArenaScope scope(*ctx.scratch);
  const std::size_t bytes = std::size_t(args.groups) * 2 * sizeof(float);
  const TensorView statistics(ctx.scratch->take(bytes, "statistics of group_norm"), DType::f32, {args.groups, 2}, ctx.device);
  check_x(x, args, statistics);
  check_y(x, args, y);
  const OpSpan span(ctx, [&] { return row_work(kOp, x, bytes_of_rows(x) + bytes_of_rows(y)); });
  run_statistics(ctx, x, args, statistics);
  run_apply(ctx, x, args, statistics, y);
}

}  // namespace octavo
