// Products of 16-bit floats on the tensor cores with float32 sums, and with float16 sums. PTX ISA, "Warp-level matrix instructions: mma"; m16n8k16 from sm_80
// on, m16n8k8 (float16 only) from sm_75 on.
// Lane l, g = l / 4, t = l % 4.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"

namespace octavo::cuda {

// d[16, 8] += a[16, 16] · b[16, 8];  a0, a1: rows g, g+8, k 2t, 2t+1;  a2, a3: the same rows, k 8+2t, 9+2t;  b0, b1: column g, k 2t, 2t+1 and 8+2t, 9+2t;
// d0, d1: row g, columns 2t, 2t+1;  d2, d3: row g+8.
template <RowType Type>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  static_assert(Type != RowType::f32, "16-bit floats only");
  if constexpr (Type == RowType::bf16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// The same product in float16 as two of half the depth, which Turing has. The fragments are those above: a0, a1, b0 hold k 0…7, a2, a3, b1 the rest.
__device__ __forceinline__ void mma_2_m16n8k8_f16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[2]), "r"(a[3]), "r"(b1));
}

// The same as mma_m16n8k16 in float16 with float16 sums, two in a word: d0: row g, columns 2t, 2t+1;  d1: row g+8. Twice the rate on GeForce.
__device__ __forceinline__ void mma_m16n8k16_f16_sums(std::uint32_t (&d)[2], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
               : "+r"(d[0]), "+r"(d[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace octavo::cuda
