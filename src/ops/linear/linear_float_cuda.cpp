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

// float32 x and bf16 w: replaces x by three bf16 parts in scratch, so that the tensor cores take it. Says false, and changes nothing, where that does not fit.
bool in_parts(ExecContext& ctx, FloatLinearLaunch& launch, int sm) {
  if (launch.x.type != cuda::RowType::f32 || launch.w.type != cuda::RowType::bf16 || launch.x.stride % 2 != 0 ||
      reinterpret_cast<std::uintptr_t>(launch.x.data) % 8 != 0) {
    return false;
  }
  FloatLinearLaunch parts = launch;
  parts.x = {.data = ctx.scratch->take(std::size_t(launch.m * 3 * launch.k) * sizeof(std::uint16_t), "x in three parts"),
             .stride = 3 * launch.k,
             .type = cuda::RowType::bf16};
  parts.w_columns = launch.k;
  parts.k = 3 * launch.k;
  if (launch.k % 8 != 0 || !fits_float_mma(parts, sm)) return false;
  launch_split_bf16(launch, parts.x.data, stream_of(ctx));
  launch = parts;
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
  const bool is_library = linear_cublaslt(ctx, launch, y.device);
  const bool is_split = !is_library && in_parts(ctx, launch, caps_of(y.device).sm);
  const bool is_mma = is_split || (!is_library && fits_float_mma(launch, caps_of(y.device).sm));
  if (log::enabled(log::Level::debug, "dispatch")) {
    log::debug("dispatch", "linear '{}': M {}, N {}, K {}, {} x {}: {}", w.name, launch.m, launch.n, launch.k, name_of(x.dtype), name_of(w.weight.dtype),
               is_library ? "cuBLASLt"
               : is_split ? "mma.sync, x in three parts"
               : is_mma   ? "mma.sync"
                          : "plain (no tensor cores: needs 16-bit floats of one type, K % 8 = 0, 16-byte aligned rows, sm_80)");
  }
  note_kernel(ctx, is_library ? "cuBLASLt" : is_split ? "mma.sync, x in three parts" : is_mma ? "mma.sync" : "plain");
  if (is_library) return;
  is_mma ? launch_float_mma(launch, stream_of(ctx)) : launch_float_plain(launch, stream_of(ctx));
}

}  // namespace octavo
