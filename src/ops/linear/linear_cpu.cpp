// The definition of linear: one dot product after the other.
#include <cmath>
#include <vector>

#include "ops/linear/epilogue_cpu.h"
#include "ops/linear/linear_backend.h"

namespace octavo {
namespace {

std::int32_t dot(const std::int8_t* x, const std::int8_t* w, std::int64_t k_count) {
  std::int32_t acc = 0;
  for (std::int64_t k = 0; k < k_count; ++k) acc += std::int32_t(x[k]) * std::int32_t(w[k]);
  return acc;
}

// [M, N] in float32, in the order of the weight's rows.
Tensor alternating(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w) {
  Tensor both(DType::f32, {x.q.rows(), w.out_features()}, {}, "gate and up");
  ctx.reference ? linear_cpu(x, w, {}, both) : linear_cpu_fast(ctx, x, w, {}, both);
  return both;
}

}  // namespace

void linear_cpu(const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  const std::int64_t n_count = w.out_features();
  const std::int64_t k_count = w.in_features();
  const Tensor weight = to_float_tensor(w.weight);
  const std::vector<float> bias = floats_of(w.bias);
  const std::vector<float> mod_gate = floats_of(epilogue.mod_gate);
  std::vector<float> in(static_cast<std::size_t>(k_count));
  std::vector<float> out(static_cast<std::size_t>(n_count));
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    load_as_float(x.row_bytes(m), x.dtype, k_count, in.data());
    for (std::int64_t n = 0; n < n_count; ++n) {
      const float* row = weight.as<float>() + n * k_count;
      float sum = 0;
      for (std::int64_t k = 0; k < k_count; ++k) sum += in[std::size_t(k)] * row[k];
      out[std::size_t(n)] = sum;
    }
    finish_row(out.data(), m, 0, n_count, bias, mod_gate, epilogue, y);
  }
}

void linear_cpu(const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  const std::int64_t n_count = w.out_features();
  const std::int64_t k_count = w.in_features();
  const std::vector<float> bias = floats_of(w.bias);
  const std::vector<float> mod_gate = floats_of(epilogue.mod_gate);
  std::vector<float> out(static_cast<std::size_t>(n_count));
  for (std::int64_t m = 0; m < x.q.rows(); ++m) {
    const float x_scale = x.scale.as<float>()[m];
    for (std::int64_t n = 0; n < n_count; ++n) {
      const std::int32_t acc = dot(x.q.row<std::int8_t>(m), w.weight.row<std::int8_t>(n), k_count);
      out[std::size_t(n)] = (float(acc) * x_scale) * w.scale->as<float>()[n];
    }
    finish_row(out.data(), m, 0, n_count, bias, mod_gate, epilogue, y);
  }
}

void linear_silu_mul_cpu(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const TensorView& y) {
  const Tensor both = alternating(ctx, x, w);
  const TensorView pairs = both;
  std::vector<float> out(static_cast<std::size_t>(y.columns()));
  for (std::int64_t m = 0; m < y.rows(); ++m) {
    const float* v = pairs.row<float>(m);
    for (std::int64_t n = 0; n < y.columns(); ++n) out[std::size_t(n)] = v[2 * n] / (1.0f + std::exp(-v[2 * n])) * v[2 * n + 1];
    store_from_float(out.data(), y.columns(), y.dtype, y.row_bytes(m));
  }
}

void linear_halves_cpu(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const TensorView& y) {
  const Tensor both = alternating(ctx, x, w);
  const TensorView pairs = both;
  const std::int64_t half = y.columns() / 2;
  std::vector<float> out(static_cast<std::size_t>(y.columns()));
  for (std::int64_t m = 0; m < y.rows(); ++m) {
    for (std::int64_t n = 0; n < y.columns(); ++n) out[std::size_t(n % 2 * half + n / 2)] = pairs.row<float>(m)[n];
    store_from_float(out.data(), y.columns(), y.dtype, y.row_bytes(m));
  }
}

void linear_accumulate_cpu(const TensorView& x, const TensorView& w, const TensorView& acc) {
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    for (std::int64_t n = 0; n < w.rows(); ++n) acc.row<std::int32_t>(m)[n] = dot(x.row<std::int8_t>(m), w.row<std::int8_t>(n), x.columns());
  }
}

}  // namespace octavo
