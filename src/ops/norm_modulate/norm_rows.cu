#include <type_traits>

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/norm_modulate/device/norm_rows.cuh"

namespace octavo {

void launch_norm(const NormLaunch& launch, int device_index, void* stream) {
  const int group = launch.out.scale == nullptr ? 0 : launch.out.rotation_group;
  const cuda::RowPlan row = cuda::plan_row(launch.columns);
  cuda::SharedLimits limits;
  cuda_check(cuda::shared_limits(device_index, limits), "norm: shared memory");
  const cuda::WalkNeeds needs{.vectors = 1, .ring_bytes = cuda::bytes_of(launch.x.type), .rotated = group != 0};
  const cuda::WalkPlan plan =
      cuda::plan_walk(row, needs, row.segments_per_warp == 1 ? cuda::kWalkBounds<1, cuda::kMaxTeams> : cuda::kWalkBounds<3, cuda::kMaxTeams>, limits);
  if (plan.warps == 0 || group > cuda::kMaxFastGroup || !cuda::is_aligned(launch.x) || !cuda::is_aligned(launch.out) || !is_aligned(launch.weight) ||
      !is_aligned(launch.mod_scale)) {
    const int general = cuda::general_words(group) * int(sizeof(float));
    return cuda_check(cuda::launch_rows(device::norm_rows_general_kernel, launch.rows, cuda::kGeneralThreads, general, stream, launch), "norm (general)");
  }
  cuda::with_type(launch.x.type, [&](auto type) {
    cuda::with_segments(row.segments_per_warp, [&](auto segments) {
      const auto start = [&](auto centered) {
        auto* kernel = &device::norm_rows_kernel<type(), segments(), cuda::RowMode::floats, centered()>;
        if (launch.out.scale != nullptr) kernel = &device::norm_rows_kernel<type(), segments(), cuda::RowMode::codes, centered()>;
        if (group != 0) kernel = &device::norm_rows_kernel<type(), segments(), cuda::RowMode::rotated_codes, centered()>;
        cuda_check(cuda::launch_walk(kernel, launch.rows, plan, device_index, stream, launch), "norm");
      };
      launch.center ? start(std::true_type{}) : start(std::false_type{});
    });
  });
}

}  // namespace octavo
