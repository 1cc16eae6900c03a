// linear of float weights on a GPU.
#include <fmt/format.h>

#include "base/log.h"
#include "device/cuda_check.h"
#include "ops/linear/float_launch.h"
#include "ops/linear/linear_backend.h"
#include "ops/linear/linear_cublaslt.h"
#include "ops/op_timer.h"
#include "ops/row_launch.h"

namespace octavo {

void linear_cuda(ExecContext& ctx, const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  FloatLinearLaunch launch{.x = rows_in(x), .w = rows_in(w.weight), .y = rows_in(y), .m = x.rows(), .n = w.out_features(), .k = w.in_features()};
  if (launch.m == 0 || launch.n == 0) return;
  if (w.bias) {
    launch.bias = w.bias->data;
    launch.bias_type = row_type(w.bias->dtype);
  }
  launch.silu = epilogue.activation == Activation::silu;
  if (epilogue.mod_gate) launch.mod_gate = epilogue.mod_gate->as<const float>();
  launch.factor = epilogue.factor;
  if (epilogue.residual) launch.residual = rows_in(*epilogue.residual);
  cuda_check(cudaSetDevice(y.device.index), "linear: select device");
  const bool is_library = linear_cublaslt(ctx, launch, y.device);
  const bool is_in_parts = !is_library && fits_float_parts(launch, caps_of(y.device).sm);
  const bool is_mma = !is_library && fits_float_mma(launch, caps_of(y.device).sm);
  if (log::enabled(log::Level::debug, "dispatch")) {
    log::debug("dispatch", "linear '{}': M {}, N {}, K {}, {} x {}: {}", w.name, launch.m, launch.n, launch.k, name_of(x.dtype), name_of(w.weight.dtype),
               is_library    ? "cuBLASLt"
               : is_in_parts ? "mma.sync, x in three parts"
               : is_mma      ? "mma.sync"
                             : "plain (no tensor cores: needs 16-bit floats of one type or f32 x bf16, K % 8 = 0, 16-byte aligned rows, sm_80)");
  }
  note_kernel(ctx, is_library ? "cuBLASLt" : is_in_parts ? "mma.sync, x in three parts" : is_mma ? "mma.sync" : "plain");
  if (is_library) return;
  if (is_in_parts) return launch_float_parts(launch, stream_of(ctx));
  is_mma ? launch_float_mma(launch, stream_of(ctx)) : launch_float_plain(launch, stream_of(ctx));
}

}  // namespace octavo
