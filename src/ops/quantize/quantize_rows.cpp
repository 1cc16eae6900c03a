#include "ops/quantize/quantize_rows.h"

#include "base/build.h"
#include "ops/op_work.h"
#include "ops/quantize/quantize_backend.h"
#include "ops/row_store.h"

namespace octavo {

void quantize_rows(ExecContext& ctx, const TensorView& x, const QuantizedView& out, const RowSmoothing& smoothing) {
  constexpr std::string_view op = "quantize_rows";
  check_float_matrix(op, "x", x, x.rows(), x.columns(), x.device);
  check_quantized(op, "out", out, x.rows(), x.columns(), x.device);
  if (smoothing.acts()) check_vector(op, "smoothing", smoothing.s, DType::f32, x.columns(), x.device);
  const OpSpan span(ctx, [&] { return row_work(op, x, bytes_of_rows(x) + bytes_of_rows(out)); });
  if (x.device.is_cpu()) return ctx.reference ? quantize_rows_cpu(x, out, smoothing) : quantize_rows_cpu_fast(ctx, x, out, smoothing);
  if constexpr (build::has_cuda && kQuantizeHasCuda) return quantize_rows_cuda(ctx, x, out, smoothing);
  no_gpu_body(op);
}

}  // namespace octavo
