// Host side of the row kernels: from run-time types to template arguments, and the launch itself.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "cuda/row/row.h"

namespace octavo::cuda {

template <RowType Type>
using TypeTag = std::integral_constant<RowType, Type>;
template <int Count>
using CountTag = std::integral_constant<int, Count>;

// Calls f with the type as a constant.
template <class F>
void with_type(RowType type, const F& f) {
  switch (type) {
    case RowType::f32:
      return f(TypeTag<RowType::f32>{});
    case RowType::bf16:
      return f(TypeTag<RowType::bf16>{});
    case RowType::f16:
      return f(TypeTag<RowType::f16>{});
  }
}

template <class F>
void with_segments(int segments_per_warp, const F& f) {
  if (segments_per_warp == 1) return f(CountTag<1>{});
  f(CountTag<2>{});
}

// What a launch gets without asking; above it a kernel must opt in.
inline constexpr int kDefaultSharedBytes = 48 * 1024;

// Enqueues kernel(arguments) and returns the status of the launch alone.
template <class Arguments>
cudaError_t launch_rows(void (*kernel)(Arguments), std::int64_t ctas, int threads, int shared_bytes, void* stream, Arguments arguments) {
  if (shared_bytes > kDefaultSharedBytes) {
    const cudaError_t status = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (status != cudaSuccess) return status;
  }
  void* pointers[] = {&arguments};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(unsigned(ctas)), dim3(unsigned(threads)), pointers, std::size_t(shared_bytes),
                          static_cast<cudaStream_t>(stream));
}

}  // namespace octavo::cuda
