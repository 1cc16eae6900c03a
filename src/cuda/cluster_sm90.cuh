// Clusters, named barriers, register hand-over and matrix stores of Hopper. One function per instruction. Needs sm_90 (setmaxnreg: sm_90a).
#pragma once

#include <cstdint>

namespace octavo::cuda {

// Position of this CTA in its cluster. PTX ISA 10.16 (%cluster_ctarank).
__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// All threads of all CTAs of the cluster meet. PTX ISA 9.7.13.2 (barrier.cluster).
__device__ __forceinline__ void cluster_sync() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// `threads` threads meet at the named barrier `id` (0 is __syncthreads). PTX ISA 9.7.13.1 (barrier).
__device__ __forceinline__ void named_barrier_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// Registers handed back to, or taken from, the SM's pool by a whole warpgroup. PTX ISA 9.7.19.5 (setmaxnreg).
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Four 8x8 matrices of 16-bit elements; lane 8i + r gives the 16-byte row r of matrix i, register i is its fragment. PTX ISA 9.7.14.5.17 (stmatrix).
__device__ __forceinline__ void stmatrix_x4(std::uint32_t row, std::uint32_t m0, std::uint32_t m1, std::uint32_t m2, std::uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(m0), "r"(m1), "r"(m2), "r"(m3) : "memory");
}

}  // namespace octavo::cuda
