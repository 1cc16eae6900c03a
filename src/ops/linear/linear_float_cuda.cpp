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
namespace {

// Rows wider than float16 beside a float16 w that lets them be rounded: replaces x by a float16 copy in scratch. Says false, and changes nothing, where the
// tensor cores would not take that.
bool in_float16(ExecContext& ctx, FloatLinearLaunch& launch, const LinearWeights& w, int sm) {
  if (!w.rounds_x || launch.w.type != cuda::RowType::f16 || launch.x.type == cuda::RowType::f16) return false;
  FloatLinearLaunch narrow = launch;
  narrow.x = {
      .data = ctx.scratch->take(std::size_t(launch.m * launch.k) * sizeof(std::uint16_t), "x in float16"), .stride = launch.k, .type = cuda::RowType::f16};
  if (!fits_float_mma(narrow, sm)) return false;
  auto* row_scale = static_cast<float*>(ctx.scratch->take(std::size_t(launch.m) * sizeof(float), "scales of x in float16"));
  launch_narrow_rows(launch, narrow.x.data, row_scale, stream_of(ctx));
  narrow.row_scale = row_scale;
  launch = narrow;
  return true;
}

// The library's product of such a copy, its rows brought back to their size in a pass of their own. A float32 y alone has room for them before that.
bool library_takes_float16(ExecContext& ctx, const FloatLinearLaunch& launch, Device device) {
  FloatLinearLaunch bare = launch;
  bare.row_scale = nullptr;
  if (launch.y.type != cuda::RowType::f32 || launch.residual.data != nullptr || !linear_cublaslt(ctx, bare, device)) return false;
  launch_scale_rows(launch, stream_of(ctx));
  return true;
}

}  // namespace

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
  const ArenaScope scope(*ctx.scratch);
  const int sm = caps_of(y.device).sm;
  const bool is_narrowed = in_float16(ctx, launch, w, sm);
  const bool is_library = is_narrowed ? library_takes_float16(ctx, launch, y.device) : linear_cublaslt(ctx, launch, y.device);
  const bool is_in_parts = !is_library && fits_float_parts(launch, sm);
  const bool is_mma = !is_library && fits_float_mma(launch, sm);
  const std::string body = fmt::format("{}{}",
                                       is_library    ? "cuBLASLt"
                                       : is_in_parts ? "mma.sync, x in three parts"
                                       : is_mma      ? "mma.sync"
                                                     : "plain",
                                       is_narrowed ? ", x in float16" : "");
  if (log::enabled(log::Level::debug, "dispatch")) {
    log::debug("dispatch", "linear '{}': M {}, N {}, K {}, {} x {}: {}{}", w.name, launch.m, launch.n, launch.k, name_of(x.dtype), name_of(w.weight.dtype),
               body,
               is_library || is_in_parts || is_mma
                   ? ""
                   : " (no tensor cores: needs 16-bit floats of one type or f32 x bf16, K % 8 = 0, 16-byte aligned rows, sm_80, fp16 sm_75)");
  }
  note_kernel(ctx, body);
  if (is_library) return;
  if (is_in_parts) return launch_float_parts(launch, stream_of(ctx));
  is_mma ? launch_float_mma(launch, sm, stream_of(ctx)) : launch_float_plain(launch, stream_of(ctx));
}

}  // namespace octavo
