#include "ops/quantize/dequantize_rows.h"

#include "base/build.h"
#include "ops/op_work.h"
#include "ops/quantize/quantize_backend.h"
#include "ops/row_store.h"

namespace octavo {

void dequantize_rows(ExecContext& ctx, const QuantizedView& x, const TensorView& y) {
  constexpr std::string_view op = "dequantize_rows";
  check_quantized(op, "x", x, y.rows(), y.columns(), y.device);
  check_float_matrix(op, "y", y, y.rows(), y.columns(), y.device);
  const OpSpan span(ctx, [&] { return row_work(op, y, bytes_of_rows(x) + bytes_of_rows(y)); });
  if (y.device.is_cpu()) return dequantize_rows_cpu(ctx, x, y);
  if constexpr (build::has_cuda && kQuantizeHasCuda) return dequantize_rows_cuda(ctx, x, y);
  no_gpu_body(op);
}

}  // namespace octavo
