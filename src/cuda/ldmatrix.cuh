// Fragments from shared memory. PTX ISA, "Warp-level matrix load instruction: ldmatrix"; sm_75 and later.
#pragma once

#include <cstdint>

namespace octavo::cuda {

// Four 8×16-byte matrices; lane i gives the address of row i % 8 of matrix i / 8. For bytes: lane l receives of each matrix
// the 4 bytes at row l / 4, column 4·(l % 4): exactly the s8 operand layout of mma.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}

// The same four matrices of 16-bit elements, each transposed on its way: lane l receives rows 2·(l % 4) and 2·(l % 4) + 1 of column l / 4. A matrix that lies
// k by n in memory becomes the column-major operand of mma.
__device__ __forceinline__ void ldmatrix_x4_transposed(std::uint32_t (&r)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}

}  // namespace octavo::cuda
