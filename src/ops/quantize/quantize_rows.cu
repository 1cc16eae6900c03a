#include <type_traits>

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/quantize/device/quantize_rows.cuh"

namespace octavo {

void launch_quantize_rows(const QuantizeLaunch& launch, int device_index, void* stream) {
  const int group = launch.out.rotation_group;
  const cuda::RowPlan row = cuda::plan_row(launch.columns);
  cuda::SharedLimits limits;
  cuda_check(cuda::shared_limits(device_index, limits), "quantize_rows: shared memory");
  const cuda::WalkNeeds needs{.vectors = launch.smooth != nullptr ? 1 : 0, .ring_bytes = cuda::bytes_of(launch.x.type), .rotated = group != 0};
  const cuda::WalkPlan plan = cuda::plan_walk(row, needs, row.segments_per_warp == 1 ? cuda::kWalkBounds<1, 1> : cuda::kWalkBounds<3, 1>, limits);
  if (plan.warps == 0 || group > cuda::kMaxFastGroup || !cuda::is_aligned(launch.x) || !cuda::is_aligned(launch.out) ||
      reinterpret_cast<std::uintptr_t>(launch.smooth) % 16 != 0) {
    const int shared = cuda::general_words(group) * int(sizeof(float));
    return cuda_check(cuda::launch_rows(device::quantize_rows_general_kernel, launch.rows, cuda::kGeneralThreads, shared, stream, launch),
                      "quantize_rows (general)");
  }
  cuda::with_type(launch.x.type, [&](auto type) {
    cuda::with_segments(row.segments_per_warp, [&](auto segments) {
      const auto start = [&](auto smoothed) {
        auto* kernel = &device::quantize_rows_kernel<type(), segments(), cuda::RowMode::codes, smoothed()>;
        if (group != 0) kernel = &device::quantize_rows_kernel<type(), segments(), cuda::RowMode::rotated_codes, smoothed()>;
        cuda_check(cuda::launch_walk(kernel, launch.rows, plan, device_index, stream, launch), "quantize_rows");
      };
      launch.smooth != nullptr ? start(std::true_type{}) : start(std::false_type{});
    });
  });
}

}  // namespace octavo
