// Barriers in shared memory in two halves: arrive, and later wait. PTX ISA 9.7.13.15 (mbarrier); sm_80 and later (what needs sm_90: mbarrier_sm90.cuh).
// Barriers are named by their 32-bit shared address (cuda/shared.cuh).
#pragma once

#include <cstdint>

namespace octavo::cuda {

// A phase completes after `arrivals` arrivals. Others see it after a barrier of the CTA.
__device__ __forceinline__ void mbarrier_prepare(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// What this thread wrote and read before is done for everybody who waits.
__device__ __forceinline__ void mbarrier_arrive(std::uint32_t barrier) {
  asm volatile("{\n .reg .b64 state;\n mbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}

// Asks until the phase of the given parity has completed.
__device__ __forceinline__ void mbarrier_spin(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      " .reg .pred done;\n"
      "ASK:\n"
      " mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
      " @!done bra ASK;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace octavo::cuda
