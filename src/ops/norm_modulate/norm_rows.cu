#include <algorithm>
#include <type_traits>

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/norm_modulate/device/norm_rows.cuh"
#include "ops/norm_modulate/walk.h"

namespace octavo {

void launch_norm(const NormLaunch& launch, int device_index, void* stream) {
  const int group = launch.out.scale == nullptr ? 0 : launch.out.rotation_group;
  const cuda::RowPlan plan = cuda::plan_row(launch.columns);
  const int shared = walk::shared_bytes(2, launch.columns, plan.warps, group);
  if (plan.warps == 0 || group > cuda::kMaxFastGroup || shared > walk::max_shared_bytes(device_index) || !cuda::is_aligned(launch.x) ||
      !cuda::is_aligned(launch.out)) {
    const int general = cuda::general_words(group) * int(sizeof(float));
    return cuda_check(cuda::launch_rows(device::norm_rows_general_kernel, launch.rows, cuda::kGeneralThreads, general, stream, launch), "norm (general)");
  }
  cuda::with_type(launch.x.type, [&](auto type) {
    cuda::with_segments(plan.segments_per_warp, [&](auto segments) {
      const auto start = [&](auto centered) {
        auto* kernel = &device::norm_rows_kernel<type(), segments(), cuda::RowMode::floats, centered()>;
        if (launch.out.scale != nullptr) kernel = &device::norm_rows_kernel<type(), segments(), cuda::RowMode::codes, centered()>;
        if (group != 0) kernel = &device::norm_rows_kernel<type(), segments(), cuda::RowMode::rotated_codes, centered()>;
        std::int64_t resident = 0;
        cuda_check(cuda::resident_ctas(reinterpret_cast<const void*>(kernel), device_index, plan.warps * 32, shared, resident), "norm: occupancy");
        cuda_check(cuda::launch_rows(kernel, std::min(resident, launch.rows), plan.warps * 32, shared, stream, launch), "norm");
      };
      launch.center ? start(std::true_type{}) : start(std::false_type{});
    });
  });
}

}  // namespace octavo
