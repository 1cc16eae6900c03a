#include <algorithm>

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/gated_act/device/silu_mul.cuh"

namespace octavo {

void launch_silu_mul(const SiluMulLaunch& launch, int device_index, void* stream) {
  const bool has_codes = launch.out.scale != nullptr;
  const int group = has_codes ? launch.out.rotation_group : 0;
  const cuda::RowPlan row = cuda::plan_row(launch.columns);
  cuda::SharedLimits limits;
  cuda_check(cuda::shared_limits(device_index, limits), "silu_mul: shared memory");
  const cuda::WalkNeeds needs{.vectors = 0, .ring_bytes = 2 * cuda::bytes_of(launch.up.type), .rotated = group != 0};
  const cuda::WalkPlan plan = cuda::plan_walk(row, needs, row.segments_per_warp == 1 ? cuda::kWalkBounds<1, 1> : cuda::kWalkBounds<3, 1>, limits);
  const bool is_fast = plan.warps > 0 && group <= cuda::kMaxFastGroup && launch.up.type == launch.act_gate.type && cuda::is_aligned(launch.act_gate) &&
                       cuda::is_aligned(launch.up) && cuda::is_aligned(launch.out);
  if (!is_fast) {
    const int shared = cuda::general_words(group) * int(sizeof(float));
    return cuda_check(cuda::launch_rows(device::silu_mul_general_kernel, launch.rows, cuda::kGeneralThreads, shared, stream, launch), "silu_mul (general)");
  }
  cuda::with_type(launch.up.type, [&](auto type) {
    cuda::with_segments(row.segments_per_warp, [&](auto segments) {
      auto* kernel = &device::silu_mul_kernel<type(), segments(), cuda::RowMode::floats>;
      if (has_codes)
        kernel = group == 0 ? &device::silu_mul_kernel<type(), segments(), cuda::RowMode::codes>
                            : &device::silu_mul_kernel<type(), segments(), cuda::RowMode::rotated_codes>;
      cuda_check(cuda::launch_walk(kernel, launch.rows, plan, device_index, stream, launch), "silu_mul");
    });
  });
}

void launch_silu(const SiluLaunch& launch, void* stream) {
  constexpr int kThreads = 256;
  constexpr std::int64_t kMaxCtas = 1 << 16;
  const std::int64_t ctas = std::clamp<std::int64_t>((launch.rows * launch.columns + kThreads - 1) / kThreads, 1, kMaxCtas);
  cuda_check(cuda::launch_rows(device::silu_kernel, ctas, kThreads, 0, stream, launch), "silu");
}

}  // namespace octavo
