#include <algorithm>

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/quantize/device/quantize_rows.cuh"

namespace octavo {

void launch_quantize_rows(const QuantizeLaunch& launch, int device_index, void* stream) {
  const cuda::RowPlan plan = cuda::plan_row(launch.columns);
  const int group = launch.out.rotation_group;
  if (plan.warps == 0 || group > cuda::kMaxFastGroup || !cuda::is_aligned(launch.x) || !cuda::is_aligned(launch.out)) {
    const int shared = cuda::general_words(group) * int(sizeof(float));
    return cuda_check(cuda::launch_rows(device::quantize_rows_general_kernel, launch.rows, cuda::kGeneralThreads, shared, stream, launch),
                      "quantize_rows (general)");
  }
  const int threads = plan.warps * 32;
  const int shared = group == 0 ? 0 : plan.warps * cuda::kExchangeWords * int(sizeof(float));
  cuda::with_type(launch.x.type, [&](auto type) {
    cuda::with_segments(plan.segments_per_warp, [&](auto segments) {
      auto* kernel = &device::quantize_rows_kernel<type(), segments(), cuda::RowMode::codes>;
      if (group != 0) kernel = &device::quantize_rows_kernel<type(), segments(), cuda::RowMode::rotated_codes>;
      std::int64_t resident = 0;
      cuda_check(cuda::resident_ctas(reinterpret_cast<const void*>(kernel), device_index, threads, shared, resident), "quantize_rows: occupancy");
      cuda_check(cuda::launch_rows(kernel, std::min(resident, launch.rows), threads, shared, stream, launch), "quantize_rows");
    });
  });
}

}  // namespace octavo
