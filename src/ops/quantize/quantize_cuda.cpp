#include "device/cuda_check.h"
#include "ops/quantize/quantize_backend.h"
#include "ops/quantize/quantize_launch.h"
#include "ops/row_launch.h"

namespace octavo {

void quantize_rows_cuda(ExecContext& ctx, const TensorView& x, const QuantizedView& out) {
  check_kernel_range("quantize_rows", x.rows(), x.columns());
  const QuantizeLaunch launch{.x = rows_in(x), .out = rows_out("quantize_rows", out), .rows = x.rows(), .columns = int(x.columns())};
  if (launch.rows == 0) return;
  cuda_check(cudaSetDevice(x.device.index), "quantize_rows: select device");
  launch_quantize_rows(launch, x.device.index, stream_of(ctx));
}

}  // namespace octavo
