// 8-byte loads from shared memory by 32-bit address, and a 16-byte store to global memory. PTX ISA 9.7.9.8 (ld), 9.7.9.11 (st).
#pragma once

#include <cstdint>

namespace octavo::cuda {

__device__ __forceinline__ float2 load_shared_2f(std::uint32_t from) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
  return v;
}

__device__ __forceinline__ int2 load_shared_2i(std::uint32_t from) {
  int2 v;
  asm volatile("ld.shared.v2.s32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
  return v;
}

// Written out because the compiler was seen to split an ordinary uint4 store through a moving pointer into four.
__device__ __forceinline__ void store_global_16b(void* to, uint4 v) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

}  // namespace octavo::cuda
