#include "device/cuda_check.h"
#include "ops/quantize/quantize_backend.h"
#include "ops/quantize/quantize_launch.h"
#include "ops/row_launch.h"

namespace octavo {

void quantize_rows_cuda(ExecContext& ctx, const TensorView& x, const QuantizedView& out, const RowSmoothing& smoothing) {
  check_kernel_range("quantize_rows", x.rows(), x.columns());
  QuantizeLaunch launch{.x = rows_in(x), .out = rows_out("quantize_rows", out), .rows = x.rows(), .columns = int(x.columns())};
  if (smoothing.acts()) launch.smooth = smoothing.s.as<const float>();
  launch.divides = smoothing.way == Smoothing::divide;
  if (launch.rows == 0) return;
  cuda_check(cudaSetDevice(x.device.index), "quantize_rows: select device");
  launch_quantize_rows(launch, x.device.index, stream_of(ctx));
}

void dequantize_rows_cuda(ExecContext& ctx, const QuantizedView& x, const TensorView& y) {
  const DequantizeLaunch launch{.q = x.q.as<const std::int8_t>(),
                                .q_stride = x.q.row_stride,
                                .scale = x.scale.as<const float>(),
                                .y = rows_in(y),
                                .rows = y.rows(),
                                .columns = y.columns()};
  if (launch.rows == 0 || launch.columns == 0) return;
  cuda_check(cudaSetDevice(y.device.index), "dequantize_rows: select device");
  launch_dequantize_rows(launch, stream_of(ctx));
}

}  // namespace octavo
