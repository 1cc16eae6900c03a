// The bulk tensor copy engine (TMA). PTX ISA 9.7.9.27 (cp.async.bulk.tensor, prefetch.tensormap). Needs sm_90.
// `map` is the address of a CUtensorMap in a __grid_constant__ parameter; coordinates are in elements, innermost first.
// What lies outside the tensor is read as zero (and still counted in bytes).
#pragma once

#include <cstdint>

namespace octavo::cuda {

// A cache policy for copies that take one: the L2 keeps what they touch longest. PTX ISA 9.7.9.18 (createpolicy).
// A policy of "normal" is not the same as none: with it, the GEMM's L2 traffic was 17 % higher (bench/results).
__device__ __forceinline__ std::uint64_t l2_evict_last() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ void prefetch_tensor_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<std::uint64_t>(map)) : "memory");
}

// global -> shared memory of this CTA; completes on `barrier`.
__device__ __forceinline__ void tma_load_2d(std::uint32_t destination, const void* map, std::int32_t c0, std::int32_t c1, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(destination),
               "l"(reinterpret_cast<std::uint64_t>(map)), "r"(c0), "r"(c1), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void tma_load_2d(std::uint32_t destination, const void* map, std::int32_t c0, std::int32_t c1, std::uint32_t barrier,
                                            std::uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(destination),
               "l"(reinterpret_cast<std::uint64_t>(map)), "r"(c0), "r"(c1), "r"(barrier), "l"(policy)
               : "memory");
}

// global -> the same shared offset, and the same barrier offset, of every CTA in `cta_mask`: one read of the L2 for all of them.
__device__ __forceinline__ void tma_load_2d_multicast(std::uint32_t destination, const void* map, std::int32_t c0, std::int32_t c1, std::uint32_t barrier,
                                                      std::uint16_t cta_mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(destination),
      "l"(reinterpret_cast<std::uint64_t>(map)), "r"(c0), "r"(c1), "r"(barrier), "h"(cta_mask)
      : "memory");
}
__device__ __forceinline__ void tma_load_2d_multicast(std::uint32_t destination, const void* map, std::int32_t c0, std::int32_t c1, std::uint32_t barrier,
                                                      std::uint16_t cta_mask, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, "
      "%6;" ::"r"(destination),
      "l"(reinterpret_cast<std::uint64_t>(map)), "r"(c0), "r"(c1), "r"(barrier), "h"(cta_mask), "l"(policy)
      : "memory");
}

}  // namespace octavo::cuda
