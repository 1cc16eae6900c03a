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

// x in parts, so that the tensor cores take it: float32 beside bf16 w as three bf16, float32 beside float16 w as two float16 (one, if w.rounds_x) and a power
// of two a row, bf16 as one. Replaces x by its parts in scratch and says how many; says 0, and changes nothing, where that does not fit.
int in_parts(ExecContext& ctx, FloatLinearLaunch& launch, const LinearWeights& w, int sm) {
  const bool to_f16 = launch.w.type == cuda::RowType::f16 && launch.x.type != cuda::RowType::f16;
  const bool to_bf16 = launch.w.type == cuda::RowType::bf16 && launch.x.type == cuda::RowType::f32;
  if (!to_f16 && !to_bf16) return 0;
  if (to_bf16 && (launch.x.stride % 2 != 0 || reinterpret_cast<std::uintptr_t>(launch.x.data) % 8 != 0)) return 0;
  const int count = to_bf16 ? 3 : launch.x.type == cuda::RowType::f32 && !w.rounds_x ? 2 : 1;
  FloatLinearLaunch parts = launch;
  parts.x = {.data = ctx.scratch->take(std::size_t(launch.m * count * launch.k) * sizeof(std::uint16_t), "x in parts"),
             .stride = count * launch.k,
             .type = launch.w.type};
  parts.w_columns = launch.k;
  parts.k = count * launch.k;
  if (launch.k % 8 != 0 || !fits_float_mma(parts, sm)) return 0;
  if (to_bf16) {
    launch_split_bf16(launch, parts.x.data, stream_of(ctx));
  } else {
    auto* row_scale = static_cast<float*>(ctx.scratch->take(std::size_t(launch.m) * sizeof(float), "scales of x in parts"));
    launch_split_f16(launch, count, parts.x.data, row_scale, stream_of(ctx));
    parts.row_scale = row_scale;
  }
  launch = parts;
  return count;
}

// The library's product of x in one part, its rows brought back to their size in a pass of their own. A float32 y alone has room for them before that.
bool library_takes_part(ExecContext& ctx, const FloatLinearLaunch& launch, Device device) {
  FloatLinearLaunch bare = launch;
  bare.row_scale = nullptr;
  if (launch.y.type != cuda::RowType::f32 || !linear_cublaslt(ctx, bare, device)) return false;
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
  if (epilogue.residual) launch.residual = rows_in(*epilogue.residual);
  cuda_check(cudaSetDevice(y.device.index), "linear: select device");
  const ArenaScope scope(*ctx.scratch);
  const int sm = caps_of(y.device).sm;
  bool is_library = linear_cublaslt(ctx, launch, y.device);
  const int parts = is_library ? 0 : in_parts(ctx, launch, w, sm);
  if (parts == 1) is_library = library_takes_part(ctx, launch, y.device);
  const bool is_mma = !is_library && (parts > 0 || fits_float_mma(launch, sm));
  constexpr std::string_view kOfParts[] = {"", ", x in one part", ", x in two parts", ", x in three parts"};
  const std::string body = fmt::format("{}{}", is_library ? "cuBLASLt" : is_mma ? "mma.sync" : "plain", kOfParts[parts]);
  if (log::enabled(log::Level::debug, "dispatch")) {
    log::debug("dispatch", "linear '{}': M {}, N {}, K {}, {} x {}: {}{}", w.name, launch.m, launch.n, w.in_features(), name_of(x.dtype),
               name_of(w.weight.dtype), body,
               is_library || is_mma ? "" : " (no tensor cores: needs 16-bit floats of one type, K % 8 = 0, 16-byte aligned rows, sm_80, fp16 sm_75)");
  }
  note_kernel(ctx, body);
  if (is_library) return;
  is_mma ? launch_float_mma(launch, sm, stream_of(ctx)) : launch_float_plain(launch, stream_of(ctx));
}

}  // namespace octavo
