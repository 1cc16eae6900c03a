// Plain loads and stores of shared memory, by the 32-bit addresses that instructions want.
#pragma once

#include <cstdint>

namespace octavo::cuda {

// The 32-bit shared-window address of a generic pointer into shared memory.
__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer)); }

// The same number, of which the compiler does not know that it is: addresses derived from it are computed where they are used instead of being kept in
// registers across a loop.
__device__ __forceinline__ std::uint32_t recomputed(std::uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

__device__ __forceinline__ void store_shared_4b(std::uint32_t to, std::uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}

__device__ __forceinline__ void store_shared_2b(std::uint32_t to, std::uint16_t value) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(to), "h"(value) : "memory");
}

__device__ __forceinline__ void store_shared_8b(std::uint32_t to, std::uint32_t a, std::uint32_t b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}

__device__ __forceinline__ void store_shared_16b(std::uint32_t to, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

__device__ __forceinline__ uint4 load_shared_16b(std::uint32_t from) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
  return v;
}

}  // namespace octavo::cuda
