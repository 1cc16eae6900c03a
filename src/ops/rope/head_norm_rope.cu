#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/rope/device/head_norm_rope.cuh"

namespace octavo {

void launch_head_norm_rope(const HeadNormRopeLaunch& launch, void* stream) {
  const auto ctas_of = [](std::int64_t warps) { return (warps + device::kRopeWarps - 1) / device::kRopeWarps; };
  const bool has_tables =
      (reinterpret_cast<std::uintptr_t>(launch.cos) | reinterpret_cast<std::uintptr_t>(launch.sin)) % 16 == 0 && launch.table_stride % 4 == 0;
  const bool is_fast = cuda::is_aligned(launch.x) && has_tables && (launch.head_dim == 64 || launch.head_dim == 128 || launch.head_dim == 256);
  if (!is_fast) {
    return cuda_check(cuda::launch_rows(&device::head_norm_rope_general_kernel, ctas_of(launch.rows * launch.heads), device::kRopeThreads, 0, stream, launch),
                      "head_norm_rope");
  }
  const std::int64_t ctas = ctas_of(launch.rows * ((launch.heads + device::kRopeHeads - 1) / device::kRopeHeads));
  cuda::with_type(launch.x.type, [&](auto type) {
    auto* kernel = &device::head_norm_rope_kernel<type(), 1>;
    if (launch.head_dim == 128) kernel = &device::head_norm_rope_kernel<type(), 2>;
    if (launch.head_dim == 256) kernel = &device::head_norm_rope_kernel<type(), 4>;
    cuda_check(cuda::launch_overlapping(kernel, dim3(unsigned(ctas)), device::kRopeThreads, 0, stream, launch), "head_norm_rope");
  });
}

}  // namespace octavo
