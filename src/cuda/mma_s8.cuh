// Integer tensor-core products with int32 sums that wrap (no .satfinite: sums are exact, numerics.md section 4).
// PTX ISA, "Warp-level matrix instructions: mma". Lane l, g = l / 4, t = l % 4.
#pragma once

#include <cstdint>

namespace octavo::cuda {

// d[8, 8] += a[8, 16] · b[16, 8];  a: row g, k 4t…4t+3;  b: column g, k 4t…4t+3;  d: row g, columns 2t, 2t+1. sm_75 and later.
__device__ __forceinline__ void mma_m8n8k16_s8(int& d0, int& d1, std::uint32_t a, std::uint32_t b) {
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+r"(d0), "+r"(d1) : "r"(a), "r"(b));
}

// d[16, 8] += a[16, 32] · b[32, 8];  a0, a1: rows g, g+8 of k 0…15, a2, a3: of k 16…31;  b0, b1: k 0…15, 16…31;  d: rows g (d0, d1), g+8 (d2, d3). sm_80 and
// later.
__device__ __forceinline__ void mma_m16n8k32_s8(int (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same product from the same fragments in four of Turing's 8×8×16 pieces.
__device__ __forceinline__ void mma_m16n8k32_s8_in_quarters(int (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  mma_m8n8k16_s8(d[0], d[1], a[0], b0);
  mma_m8n8k16_s8(d[2], d[3], a[1], b0);
  mma_m8n8k16_s8(d[0], d[1], a[2], b1);
  mma_m8n8k16_s8(d[2], d[3], a[3], b1);
}

}  // namespace octavo::cuda
