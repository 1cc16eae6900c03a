#include <algorithm>

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/norm_modulate/device/gated_residual_norm.cuh"

namespace octavo {

void launch_gated_residual_norm(const GatedResidualLaunch& launch, int device_index, void* stream) {
  const bool has_codes = launch.has_out && launch.out.scale != nullptr;
  const int group = has_codes ? launch.out.rotation_group : 0;
  const cuda::RowPlan row = cuda::plan_row(launch.columns);
  cuda::SharedLimits limits;
  cuda_check(cuda::shared_limits(device_index, limits), "gated_residual_norm: shared memory");
  const cuda::WalkNeeds needs{.vectors = 2, .ring_bytes = 2 * cuda::bytes_of(launch.residual.type), .rotated = group != 0};
  const cuda::WalkPlan plan =
      cuda::plan_walk(row, needs, row.segments_per_warp == 1 ? cuda::kWalkBounds<1, cuda::kMaxTeams> : cuda::kWalkBounds<3, cuda::kMaxTeams>, limits);
  const bool is_fast = plan.warps > 0 && group <= cuda::kMaxFastGroup && launch.y.type == launch.residual.type && cuda::is_aligned(launch.residual) &&
                       cuda::is_aligned(launch.y) && is_aligned(launch.mod_gate) && is_aligned(launch.post_weight) && is_aligned(launch.next_weight) &&
                       is_aligned(launch.next_mod_scale) && (!launch.has_out || cuda::is_aligned(launch.out));
  if (!is_fast) {
    const int general = cuda::general_words(group) * int(sizeof(float));
    return cuda_check(cuda::launch_rows(device::gated_residual_norm_general_kernel, launch.rows, cuda::kGeneralThreads, general, stream, launch),
                      "gated_residual_norm (general)");
  }
  cuda::with_type(launch.residual.type, [&](auto type) {
    cuda::with_segments(row.segments_per_warp, [&](auto segments) {
      auto* kernel = &device::gated_residual_norm_kernel<type(), segments(), cuda::RowMode::floats>;
      if (has_codes) kernel = &device::gated_residual_norm_kernel<type(), segments(), cuda::RowMode::codes>;
      if (group != 0) kernel = &device::gated_residual_norm_kernel<type(), segments(), cuda::RowMode::rotated_codes>;
      cuda_check(cuda::launch_walk(kernel, launch.rows, plan, device_index, stream, launch), "gated_residual_norm");
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
