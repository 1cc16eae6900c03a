// linear out of packed panels (cpu/panel_product.h), the epilogue on finished rows while they are in L1.
// The float body runs the same chain of multiply-adds as the plain one, but fused: |fast - plain| <= 2 K 2^-24 Σ |x w|. The integer body is equal.
#include <algorithm>
#include <vector>

#include "cpu/panel_product.h"
#include "cpu/row_math.h"
#include "ops/linear/epilogue_cpu.h"
#include "ops/linear/linear_backend.h"

namespace octavo {

void linear_cpu_fast(ExecContext& ctx, const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y, cpu::Isa isa) {
  if (w.in_features() == 0) return linear_cpu(x, w, epilogue, y);  // nothing to sum
  const std::vector<float> bias = floats_of(w.bias);
  const std::vector<float> mod_gate = floats_of(epilogue.mod_gate);
  const cpu::PanelKernel<float>& kernel = cpu::f32_kernel(isa);
  cpu::PanelProduct<float> product{.m = x.rows(), .n = w.out_features(), .k = w.in_features(), .a = cpu::float_rows(x), .b = cpu::float_rows(w.weight)};
  product.finish = [&](std::int64_t m, std::int64_t first, std::int64_t count, float* values) {
    finish_row(values, m, first, count, bias, mod_gate, epilogue, y);
  };
  cpu::multiply_panels(*ctx.pool, *ctx.scratch, kernel, product);
}

void linear_cpu_fast(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y, cpu::Isa isa) {
  if (w.in_features() == 0) return linear_cpu(x, w, epilogue, y);  // nothing to sum
  const std::vector<float> bias = floats_of(w.bias);
  const std::vector<float> mod_gate = floats_of(epilogue.mod_gate);
  const float* x_scale = x.scale.as<float>();
  const float* w_scale = w.scale->as<float>();
  const cpu::PanelKernel<std::int32_t>& kernel = cpu::s8_kernel(isa);
  cpu::PanelProduct<std::int32_t> product{
      .m = x.q.rows(), .n = w.out_features(), .k = w.in_features(), .a = cpu::tile_rows(kernel, x.q), .b = cpu::panel_rows(kernel, w.weight)};
  product.finish = [&](std::int64_t m, std::int64_t first, std::int64_t count, std::int32_t* acc) {
    alignas(64) float values[cpu::kMaxBlockColumns];
    cpu::dequantize(acc, count, x_scale[m], w_scale + first, values);
    finish_row(values, m, first, count, bias, mod_gate, epilogue, y);
  };
  cpu::multiply_panels(*ctx.pool, *ctx.scratch, kernel, product);
}

void linear_accumulate_cpu_fast(ExecContext& ctx, const TensorView& x, const TensorView& w, const TensorView& acc, cpu::Isa isa) {
  if (x.columns() == 0) return linear_accumulate_cpu(x, w, acc);
  const cpu::PanelKernel<std::int32_t>& kernel = cpu::s8_kernel(isa);
  cpu::PanelProduct<std::int32_t> product{.m = x.rows(), .n = w.rows(), .k = x.columns(), .a = cpu::tile_rows(kernel, x), .b = cpu::panel_rows(kernel, w)};
  product.finish = [&](std::int64_t m, std::int64_t first, std::int64_t count, const std::int32_t* values) {
    std::copy_n(values, count, acc.row<std::int32_t>(m) + first);
  };
  cpu::multiply_panels(*ctx.pool, *ctx.scratch, kernel, product);
}

}  // namespace octavo
