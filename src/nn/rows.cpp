#include "nn/rows.h"

#include "ops/quantize/quantize_rows.h"

namespace octavo::nn {

TensorView scratch_tensor(ExecContext& ctx, DType dtype, Shape shape, std::string_view what) {
  void* memory = ctx.scratch->take(std::size_t(shape.elements()) * bytes_of(dtype), what);
  return {memory, dtype, shape, ctx.scratch->device()};
}

RowOutput scratch_rows(ExecContext& ctx, const Precision& precision, std::int64_t rows, std::int64_t columns, std::string_view what) {
  return scratch_rows(ctx, RowFormat{.is_quantized = precision.activation.is_quantized()}, precision.residual, rows, columns, what);
}

RowOutput scratch_rows(ExecContext& ctx, const RowFormat& format, DType floats, std::int64_t rows, std::int64_t columns, std::string_view what) {
  if (!format.is_quantized) return scratch_tensor(ctx, floats, {rows, columns}, what);
  QuantizedView view;
  view.q = scratch_tensor(ctx, DType::s8, {rows, columns}, what);
  view.scale = scratch_tensor(ctx, DType::f32, {rows}, what);
  view.rotation_group = format.rotation_group;
  return view;
}

RowOutput row_range(const RowOutput& rows, std::int64_t first, std::int64_t count) {
  if (const auto* floats = std::get_if<TensorView>(&rows)) return floats->row_range(first, count);
  QuantizedView part = std::get<QuantizedView>(rows);
  part.q = part.q.row_range(first, count);
  part.scale = TensorView(part.scale.as<float>() + first, DType::f32, {count}, part.scale.device);
  return part;
}

RowOutput as_projection_input(ExecContext& ctx, const Precision& precision, const TensorView& x) {
  if (!precision.activation.is_quantized()) return x;
  const RowOutput rows = scratch_rows(ctx, precision, x.rows(), x.columns(), "quantised rows");
  quantize_rows(ctx, x, std::get<QuantizedView>(rows));
  return rows;
}

}  // namespace octavo::nn
