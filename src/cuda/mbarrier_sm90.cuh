// Barriers in shared memory that count arrivals and bytes. PTX ISA 9.7.13.15 (mbarrier). Needs sm_90.
// Barriers are named by their 32-bit shared address (cuda/shared.cuh).
#pragma once

#include <cstdint>

namespace octavo::cuda {

// A phase completes after `arrivals` arrivals and once all announced bytes have landed.
__device__ __forceinline__ void mbarrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the peers of the cluster and to the copy engine. PTX ISA 9.7.13.4 (fence).
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Arrives once and announces `bytes` that the copy engine will deliver in this phase.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives on the barrier at the same offset in CTA `rank` of the cluster (which may be this one). Says "I have read", nothing more: the scope is left at
// its default, because .release.cluster costs two memory fences, which must not stand in a main loop.
__device__ __forceinline__ void mbarrier_arrive_cluster(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Waits until the phase of the given parity has completed. try_wait sleeps in hardware for a while, so the loop hardly spins.
__device__ __forceinline__ void mbarrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\n"
      "bra WAIT;\n"
      "DONE:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace octavo::cuda
