#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/norm_modulate/device/norm_rows.cuh"
#include "ops/norm_modulate/walk.h"

namespace octavo {

void launch_norm(const NormLaunch& launch, int device, void* stream) {
  const int group = launch.out.scale == nullptr ? 0 : launch.out.rotation_group;
  const cuda::RowPlan plan = cuda::plan_row(launch.columns);
  const int shared = walk::shared_bytes(2, launch.columns, plan.warps, group);
  if (plan.warps == 0 || group > cuda::kMaxFastGroup || shared > walk::max_shared_bytes(device) || !cuda::is_aligned(launch.x) ||
      !cuda::is_aligned(launch.out)) {
    const int general = cuda::general_words(group) * int(sizeof(float));
    return cuda_check(cuda::launch_rows(device::norm_rows_general_kernel, launch.rows, cuda::kGeneralThreads, general, stream, launch), "norm (general)");
  }
  cuda::with_type(launch.x.type, [&](auto type) {
    cuda::with_segments(plan.segments_per_warp, [&](auto segments) {
      auto* kernel = &device::norm_rows_kernel<type(), segments(), cuda::RowMode::floats>;
      if (launch.out.scale != nullptr)
        kernel = group == 0 ? &device::norm_rows_kernel<type(), segments(), cuda::RowMode::codes>
                            : &device::norm_rows_kernel<type(), segments(), cuda::RowMode::rotated_codes>;
      const std::int64_t ctas = walk::ctas(reinterpret_cast<const void*>(kernel), device, plan.warps * 32, shared, launch.rows);
      cuda_check(cuda::launch_rows(kernel, ctas, plan.warps * 32, shared, stream, launch), "norm");
    });
  });
}

}  // namespace octavo
