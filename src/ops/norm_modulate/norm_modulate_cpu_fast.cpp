// The norms over the pool, in the steps and the order of the plain bodies: bit-equal to them.
#include <cmath>
#include <vector>

#include "cpu/slots.h"
#include "ops/norm_modulate/norm_modulate_backend.h"
#include "ops/norm_modulate/norm_row_cpu.h"
#include "ops/row_store.h"

namespace octavo {
namespace {

void rms(const NormRow& norm, float* x, std::int64_t count) {
  const float inv_rms = 1.0f / std::sqrt(cpu::sum_squares(x, count, 0.0f) / float(count) + norm.eps);
  cpu::scale_by(x, count, inv_rms, norm.weight.data());
  if (!norm.factor.empty()) cpu::multiply(x, norm.factor.data(), count);
}

void layer(const NormRow& norm, float* x, std::int64_t count) {
  const float mean = cpu::sum(x, count) / float(count);
  const float inv_deviation = 1.0f / std::sqrt(cpu::sum_squares(x, count, mean) / float(count) + norm.eps);
  cpu::center_and_scale(x, count, mean, inv_deviation);
  if (!norm.factor.empty()) cpu::multiply(x, norm.factor.data(), count);
}

// Reads a row of x, changes it, writes it to `out`; for every row.
template <class Change>
void each_row(ExecContext& ctx, const TensorView& x, const RowOutput& out, Change change) {
  cpu::for_each_rows(*ctx.pool, x.rows(), x.columns(), kRowChunk, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> row(static_cast<std::size_t>(x.columns()));
    for (std::int64_t m = first; m < first + count; ++m) {
      cpu::load_floats(x.row_bytes(m), x.dtype, x.columns(), row.data());
      change(row.data());
      store_row_fast(row.data(), m, out);
    }
  });
}

}  // namespace

void rms_norm_cpu_fast(ExecContext& ctx, const TensorView& x, const NormArgs& args, const RowOutput& out) {
  const NormRow norm(args);
  each_row(ctx, x, out, [&](float* row) { rms(norm, row, x.columns()); });
}

void layer_norm_cpu_fast(ExecContext& ctx, const TensorView& x, float eps, const std::optional<TensorView>& mod_scale, const RowOutput& out) {
  const NormRow norm(eps, mod_scale);
  each_row(ctx, x, out, [&](float* row) { layer(norm, row, x.columns()); });
}

void gated_residual_norm_cpu_fast(ExecContext& ctx, const TensorView& residual, const TensorView& y, const TensorView& mod_gate, const NormArgs& post,
                                  const NormArgs& next, const std::optional<RowOutput>& out) {
  const std::int64_t columns = residual.columns();
  const NormRow after({post.weight, post.eps, std::nullopt});
  const std::optional<NormRow> before = out ? std::optional<NormRow>(next) : std::nullopt;
  const std::vector<float> gate = tanh_of(mod_gate);
  cpu::for_each_rows(*ctx.pool, residual.rows(), residual.columns(), kRowChunk, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> stream(static_cast<std::size_t>(columns));
    std::vector<float> branch(static_cast<std::size_t>(columns));
    for (std::int64_t m = first; m < first + count; ++m) {
      cpu::load_floats(residual.row_bytes(m), residual.dtype, columns, stream.data());
      cpu::load_floats(y.row_bytes(m), y.dtype, columns, branch.data());
      rms(after, branch.data(), columns);
      cpu::add_gated(stream.data(), gate.data(), branch.data(), columns);
      cpu::store_floats(stream.data(), columns, residual.dtype, residual.row_bytes(m));
      if (!out) continue;
      if (residual.dtype != DType::f32) cpu::load_floats(residual.row_bytes(m), residual.dtype, columns, stream.data());
      rms(*before, stream.data(), columns);
      store_row_fast(stream.data(), m, *out);
    }
  });
}

void add_rows_cpu_fast(ExecContext& ctx, const TensorView& x, const TensorView& y) {
  const std::int64_t columns = x.columns();
  cpu::for_each_rows(*ctx.pool, x.rows(), x.columns(), kRowChunk, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> a(static_cast<std::size_t>(columns));
    std::vector<float> b(static_cast<std::size_t>(columns));
    for (std::int64_t m = first; m < first + count; ++m) {
      cpu::load_floats(x.row_bytes(m), x.dtype, columns, a.data());
      cpu::load_floats(y.row_bytes(m), y.dtype, columns, b.data());
      cpu::add(a.data(), b.data(), columns);
      cpu::store_floats(a.data(), columns, x.dtype, x.row_bytes(m));
    }
  });
}

}  // namespace octavo
