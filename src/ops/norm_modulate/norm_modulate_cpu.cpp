// The definition of the norms: row after row, every step one float32 operation, sums in the order of cpu/row_math.h.
#include <cmath>
#include <vector>

#include "cpu/row_math.h"
#include "ops/norm_modulate/norm_modulate_backend.h"
#include "ops/norm_modulate/norm_row_cpu.h"
#include "ops/row_store.h"

namespace octavo {

NormRow::NormRow(const NormArgs& args) : NormRow(args.eps, args.mod_scale) {
  weight.resize(std::size_t(args.weight.shape.elements()));
  load_as_float(args.weight.data, args.weight.dtype, std::int64_t(weight.size()), weight.data());
}

NormRow::NormRow(float epsilon, const std::optional<TensorView>& mod_scale) : eps(epsilon) {
  if (!mod_scale) return;
  factor.resize(std::size_t(mod_scale->shape.elements()));
  for (std::size_t k = 0; k < factor.size(); ++k) factor[k] = 1.0f + mod_scale->as<float>()[k];
}

void NormRow::rms(float* x, std::int64_t count) const {
  const float inv_rms = 1.0f / std::sqrt(cpu::sum_squares(x, count, 0.0f) / float(count) + eps);
  for (std::int64_t k = 0; k < count; ++k) x[k] = (x[k] * inv_rms) * weight[std::size_t(k)];
  if (factor.empty()) return;
  for (std::int64_t k = 0; k < count; ++k) x[k] *= factor[std::size_t(k)];
}

void NormRow::layer(float* x, std::int64_t count) const {
  const float mean = cpu::sum(x, count) / float(count);
  const float inv_deviation = 1.0f / std::sqrt(cpu::sum_squares(x, count, mean) / float(count) + eps);
  for (std::int64_t k = 0; k < count; ++k) x[k] = (x[k] - mean) * inv_deviation;
  if (factor.empty()) return;
  for (std::int64_t k = 0; k < count; ++k) x[k] *= factor[std::size_t(k)];
}

std::vector<float> tanh_of(const TensorView& mod_gate) {
  std::vector<float> gate(std::size_t(mod_gate.shape.elements()));
  for (std::size_t k = 0; k < gate.size(); ++k) gate[k] = std::tanh(mod_gate.as<float>()[k]);
  return gate;
}

void rms_norm_cpu(const TensorView& x, const NormArgs& args, const RowOutput& out) {
  const NormRow norm(args);
  std::vector<float> row(static_cast<std::size_t>(x.columns()));
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    load_as_float(x.row_bytes(m), x.dtype, x.columns(), row.data());
    norm.rms(row.data(), x.columns());
    store_row(row.data(), m, out);
  }
}

void layer_norm_cpu(const TensorView& x, float eps, const std::optional<TensorView>& mod_scale, const RowOutput& out) {
  const NormRow norm(eps, mod_scale);
  std::vector<float> row(static_cast<std::size_t>(x.columns()));
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    load_as_float(x.row_bytes(m), x.dtype, x.columns(), row.data());
    norm.layer(row.data(), x.columns());
    store_row(row.data(), m, out);
  }
}

void gated_residual_norm_cpu(const TensorView& residual, const TensorView& y, const TensorView& mod_gate, const NormArgs& post, const NormArgs& next,
                             const std::optional<RowOutput>& out) {
  const std::int64_t count = residual.columns();
  const NormRow after({post.weight, post.eps, std::nullopt});
  const std::optional<NormRow> before = out ? std::optional<NormRow>(next) : std::nullopt;
  const std::vector<float> gate = tanh_of(mod_gate);
  std::vector<float> stream(static_cast<std::size_t>(count));
  std::vector<float> branch(static_cast<std::size_t>(count));
  for (std::int64_t m = 0; m < residual.rows(); ++m) {
    load_as_float(residual.row_bytes(m), residual.dtype, count, stream.data());
    load_as_float(y.row_bytes(m), y.dtype, count, branch.data());
    after.rms(branch.data(), count);
    for (std::size_t k = 0; k < gate.size(); ++k) stream[k] += gate[k] * branch[k];
    store_from_float(stream.data(), count, residual.dtype, residual.row_bytes(m));
    if (!out) continue;
    load_as_float(residual.row_bytes(m), residual.dtype, count, stream.data());  // the second norm sees what was stored
    before->rms(stream.data(), count);
    store_row(stream.data(), m, *out);
  }
}

void add_rows_cpu(const TensorView& x, const TensorView& y) {
  const std::int64_t count = x.columns();
  std::vector<float> a(static_cast<std::size_t>(count));
  std::vector<float> b(static_cast<std::size_t>(count));
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    load_as_float(x.row_bytes(m), x.dtype, count, a.data());
    load_as_float(y.row_bytes(m), y.dtype, count, b.data());
    for (std::size_t k = 0; k < a.size(); ++k) a[k] += b[k];
    store_from_float(a.data(), count, x.dtype, x.row_bytes(m));
  }
}

}  // namespace octavo
