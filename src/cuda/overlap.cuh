// The beginning of a kernel while the one before it ends (programmatic dependent launch, sm_90 and later; nothing elsewhere). A kernel launched so
// (cuda/row/launch.h, may_overlap) must call wait_for_predecessor() in every thread before it touches anything that an earlier kernel reads or writes.
#pragma once

namespace octavo::cuda {

// Returns when the kernel before this one in the stream has ended and its writes can be seen; that kernel waited likewise, so all earlier ones have, too.
__device__ __forceinline__ void wait_for_predecessor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From here on the next kernel may take what this one leaves free. Once all CTAs have said so or have ended, it does.
__device__ __forceinline__ void let_successor_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace octavo::cuda
