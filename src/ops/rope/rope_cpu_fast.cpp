// head_norm_rope over the pool; bit-equal to the plain body.
#include <cmath>
#include <vector>

#include "cpu/convert.h"
#include "cpu/row_math.h"
#include "cpu/slots.h"
#include "cpu/target.h"
#include "ops/rope/rope_backend.h"

namespace octavo {
namespace {

OCTAVO_CPU_CLONES
void rotate_half(float* low, float* high, const float* cos, const float* sin, std::int64_t half) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = low[i];
    const float b = high[i];
    low[i] = a * cos[i] - b * sin[i];
    high[i] = b * cos[i] + a * sin[i];
  }
}

}  // namespace

void head_norm_rope_cpu_fast(ExecContext& ctx, const TensorView& x, int heads, const TensorView& weight, float eps, const TensorView& cos,
                             const TensorView& sin) {
  const std::int64_t head_dim = weight.shape.elements();
  const std::int64_t half = head_dim / 2;
  const Tensor scale = to_float_tensor(weight);
  cpu::for_each_rows(*ctx.pool, x.rows(), x.columns(), 4, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> row(static_cast<std::size_t>(x.columns()));
    for (std::int64_t m = first; m < first + count; ++m) {
      cpu::load_floats(x.row_bytes(m), x.dtype, x.columns(), row.data());
      for (int h = 0; h < heads; ++h) {
        float* v = row.data() + h * head_dim;
        const float inv_rms = 1.0f / std::sqrt(cpu::sum_squares(v, head_dim, 0.0f) / float(head_dim) + eps);
        cpu::scale_by(v, head_dim, inv_rms, scale.as<float>());
        rotate_half(v, v + half, cos.row<float>(m), sin.row<float>(m), half);
      }
      cpu::store_floats(row.data(), x.columns(), x.dtype, x.row_bytes(m));
    }
  });
}

}  // namespace octavo
