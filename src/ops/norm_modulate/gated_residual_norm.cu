#include <algorithm>

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/norm_modulate/device/gated_residual_norm.cuh"
#include "ops/norm_modulate/walk.h"

namespace octavo {

void launch_gated_residual_norm(const GatedResidualLaunch& launch, int device_index, void* stream) {
  const bool has_codes = launch.has_out && launch.out.scale != nullptr;
  const int group = has_codes ? launch.out.rotation_group : 0;
  const cuda::RowPlan plan = cuda::plan_row(launch.columns);
  const int shared = walk::shared_bytes(3, launch.columns, plan.warps, group);
  const bool is_fast = plan.warps > 0 && group <= cuda::kMaxFastGroup && shared <= walk::max_shared_bytes(device_index) &&
                       launch.y.type == launch.residual.type && cuda::is_aligned(launch.residual) && cuda::is_aligned(launch.y) &&
                       (!launch.has_out || cuda::is_aligned(launch.out));
  if (!is_fast) {
    const int general = cuda::general_words(group) * int(sizeof(float));
    return cuda_check(cuda::launch_rows(device::gated_residual_norm_general_kernel, launch.rows, cuda::kGeneralThreads, general, stream, launch),
                      "gated_residual_norm (general)");
  }
  cuda::with_type(launch.residual.type, [&](auto type) {
    cuda::with_segments(plan.segments_per_warp, [&](auto segments) {
      auto* kernel = &device::gated_residual_norm_kernel<type(), segments(), cuda::RowMode::floats>;
      if (has_codes) kernel = &device::gated_residual_norm_kernel<type(), segments(), cuda::RowMode::codes>;
      if (group != 0) kernel = &device::gated_residual_norm_kernel<type(), segments(), cuda::RowMode::rotated_codes>;
      std::int64_t resident = 0;
      cuda_check(cuda::resident_ctas(reinterpret_cast<const void*>(kernel), device_index, plan.warps * 32, shared, resident), "gated_residual_norm: occupancy");
      cuda_check(cuda::launch_rows(kernel, std::min(resident, launch.rows), plan.warps * 32, shared, stream, launch), "gated_residual_norm");
    });
  });
}

void launch_add_rows(const AddRowsLaunch& launch, void* stream) {
  constexpr int kThreads = 256;
  constexpr std::int64_t kMaxCtas = 1 << 16;
  const bool is_fast = launch.columns % 8 == 0 && launch.x.type == launch.y.type && cuda::is_aligned(launch.x) && cuda::is_aligned(launch.y);
  const std::int64_t count = launch.rows * (is_fast ? launch.columns / 8 : launch.columns);
  const std::int64_t ctas = std::clamp<std::int64_t>((count + kThreads - 1) / kThreads, 1, kMaxCtas);
  auto* kernel = &device::add_rows_general_kernel;
  if (is_fast) cuda::with_type(launch.x.type, [&](auto type) { kernel = &device::add_rows_kernel<type()>; });
  cuda_check(cuda::launch_rows(kernel, ctas, kThreads, 0, stream, launch), "add_rows");
}

}  // namespace octavo
