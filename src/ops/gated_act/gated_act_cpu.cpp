// The definition of silu_mul and silu.
#include <cmath>
#include <vector>

#include "ops/gated_act/gated_act_backend.h"
#include "ops/row_store.h"

namespace octavo {
namespace {

float silu_of(float a) { return a / (1.0f + std::exp(-a)); }

}  // namespace

void silu_mul_cpu(const TensorView& act_gate, const TensorView& up, const RowOutput& out) {
  const std::int64_t count = up.columns();
  std::vector<float> a(static_cast<std::size_t>(count));
  std::vector<float> b(static_cast<std::size_t>(count));
  for (std::int64_t m = 0; m < up.rows(); ++m) {
    load_as_float(act_gate.row_bytes(m), act_gate.dtype, count, a.data());
    load_as_float(up.row_bytes(m), up.dtype, count, b.data());
    for (std::size_t k = 0; k < a.size(); ++k) a[k] = silu_of(a[k]) * b[k];
    store_row(a.data(), m, out);
  }
}

void silu_cpu(const TensorView& x) {
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    for (std::int64_t k = 0; k < x.columns(); ++k) x.row<float>(m)[k] = silu_of(x.row<float>(m)[k]);
  }
}

}  // namespace octavo
