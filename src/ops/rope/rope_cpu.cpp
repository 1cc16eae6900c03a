// The definition of head_norm_rope.
#include <cmath>
#include <vector>

#include "cpu/row_math.h"
#include "ops/rope/rope_backend.h"

namespace octavo {

void head_norm_rope_cpu(const TensorView& x, int heads, const TensorView& weight, float eps, const TensorView& cos, const TensorView& sin) {
  const std::int64_t head_dim = weight.shape.elements();
  const std::int64_t half = head_dim / 2;
  const Tensor scale = to_float_tensor(weight);
  std::vector<float> row(static_cast<std::size_t>(x.columns()));
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    load_as_float(x.row_bytes(m), x.dtype, x.columns(), row.data());
    for (int h = 0; h < heads; ++h) {
      float* v = row.data() + h * head_dim;
      const float inv_rms = 1.0f / std::sqrt(cpu::sum_squares(v, head_dim, 0.0f) / float(head_dim) + eps);
      for (std::int64_t i = 0; i < head_dim; ++i) v[i] = (v[i] * inv_rms) * scale.as<float>()[i];
      for (std::int64_t i = 0; i < half; ++i) {
        const float c = cos.row<float>(m)[i];
        const float s = sin.row<float>(m)[i];
        const float low = v[i];
        const float high = v[i + half];
        v[i] = low * c - high * s;
        v[i + half] = high * c + low * s;
      }
    }
    store_from_float(row.data(), x.columns(), x.dtype, x.row_bytes(m));
  }
}

}  // namespace octavo
