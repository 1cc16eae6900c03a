#include "ops/rope/rope.h"

#include <cmath>

#include "base/build.h"
#include "ops/checks.h"
#include "ops/op_work.h"
#include "ops/rope/rope_backend.h"

namespace octavo {

void head_norm_rope(ExecContext& ctx, const TensorView& x, int heads, const TensorView& weight, float eps, const TensorView& cos, const TensorView& sin) {
  constexpr std::string_view op = "head_norm_rope";
  const std::int64_t head_dim = weight.shape.elements();
  if (heads < 1 || head_dim % 2 != 0 || x.columns() != heads * head_dim) {
    throw InvalidArgument(
        fmt::format("{}: x {} does not hold {} heads of {} features (as many as the norm's weight has; an even number)", op, x.shape.text(), heads, head_dim));
  }
  check_float_matrix(op, "x", x, x.rows(), heads * head_dim, x.device);
  check_float_vector(op, "weight", weight, head_dim, x.device);
  check_matrix(op, "cos", cos, DType::f32, x.rows(), head_dim / 2, x.device);
  check_matrix(op, "sin", sin, DType::f32, x.rows(), head_dim / 2, x.device);
  const OpSpan span(ctx, [&] { return row_work(op, x, 2 * bytes_of_rows(x) + bytes_of_rows(cos) + bytes_of_rows(sin)); });
  if (x.device.is_cpu())
    return ctx.reference ? head_norm_rope_cpu(x, heads, weight, eps, cos, sin) : head_norm_rope_cpu_fast(ctx, x, heads, weight, eps, cos, sin);
  if constexpr (build::has_cuda && kRopeHasCuda) return head_norm_rope_cuda(ctx, x, heads, weight, eps, cos, sin);
  no_gpu_body(op);
}

void rope_table(const TensorView& positions, std::span<const int> axis_of, double theta, int head_dim, const TensorView& cos, const TensorView& sin) {
  constexpr std::string_view op = "rope_table";
  const std::int64_t half = head_dim / 2;
  check_matrix(op, "positions", positions, DType::f32, positions.rows(), positions.columns(), Device{});
  check_matrix(op, "cos", cos, DType::f32, positions.rows(), half, Device{});
  check_matrix(op, "sin", sin, DType::f32, positions.rows(), half, Device{});
  if (std::int64_t(axis_of.size()) != half)
    throw InvalidArgument(fmt::format("{}: {} axis choices for {} frequencies (head size {} / 2)", op, axis_of.size(), half, head_dim));
  for (const int axis : axis_of) {
    if (axis < 0 || axis >= positions.columns())
      throw InvalidArgument(fmt::format("{}: axis {} is outside the {} axes of positions", op, axis, positions.columns()));
  }
  for (std::int64_t k = 0; k < half; ++k) {
    const float exponent = float(2 * k) / float(head_dim);
    const float frequency = 1.0f / float(std::pow(theta, double(exponent)));
    for (std::int64_t m = 0; m < positions.rows(); ++m) {
      const float angle = positions.row<float>(m)[axis_of[std::size_t(k)]] * frequency;
      cos.row<float>(m)[k] = float(std::cos(double(angle)));
      sin.row<float>(m)[k] = float(std::sin(double(angle)));
    }
  }
}

}  // namespace octavo
