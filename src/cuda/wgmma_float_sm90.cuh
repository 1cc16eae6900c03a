// Warpgroup matrix products of 16-bit floats with float32 sums. PTX ISA 9.7.15 (wgmma). Needs sm_90a.
// A warpgroup is 4 consecutive warps. acc of thread t (warp w = t/32 of 4, lane l): element 4j + 2h + b is
//   row 16w + l/4 + 8h,   column 8j + 2(l mod 4) + b.
// Fences, commits and waits: cuda/wgmma_sm90.cuh.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"
#include "cuda/wgmma_sm90.cuh"

namespace octavo::cuda {

// Describes a tile whose rows are the depth of the product (the n numbers of one k are neighbours) as TMA writes it in boxes of 64 columns: each box is
// `panel_bytes` of 128-byte rows in the 128-byte swizzle; the address is that of a k that is a multiple of 8. PTX ISA 9.7.15.5.1 (strides of MN-major layouts).
__device__ __forceinline__ std::uint64_t wgmma_descriptor_128b_depth_rows(std::uint32_t shared_address, std::uint32_t panel_bytes) {
  constexpr std::uint64_t kSwizzle128 = 1;
  constexpr std::uint64_t kEightRows = 1024 >> 4;
  return (kSwizzle128 << 62) | (kEightRows << 32) | (std::uint64_t(panel_bytes >> 4) << 16) | ((shared_address & 0x3FFFF) >> 4);
}

// For the compiler alone: nothing that reads or writes these sums crosses this line. Wanted behind a wait, whose effect on registers it cannot see.
template <int kCount>
__device__ __forceinline__ void wgmma_settled(float (&acc)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(acc[i])::"memory");
}

#define OCTAVO_ACC8(i) \
  "+f"(acc[i]), "+f"(acc[i + 1]), "+f"(acc[i + 2]), "+f"(acc[i + 3]), "+f"(acc[i + 4]), "+f"(acc[i + 5]), "+f"(acc[i + 6]), "+f"(acc[i + 7])

// clang-format off
// acc[64 × 80] (+)= a[64 × 16] · b[80 × 16]ᵀ, both in shared memory, rows of k. `accumulate` false overwrites.
template <RowType Type>
__device__ __forceinline__ void wgmma_m64n80k16(float* acc, std::uint64_t a, std::uint64_t b, bool accumulate) {
  static_assert(Type != RowType::f32, "16-bit floats only");
  if constexpr (Type == RowType::bf16) {
      asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
        "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39"
        "}, %40, %41, p, 1, 1, 0, 0;\n}\n"
        : OCTAVO_ACC8(0), OCTAVO_ACC8(8), OCTAVO_ACC8(16), OCTAVO_ACC8(24), OCTAVO_ACC8(32)
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
  } else {
      asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
        "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39"
        "}, %40, %41, p, 1, 1, 0, 0;\n}\n"
        : OCTAVO_ACC8(0), OCTAVO_ACC8(8), OCTAVO_ACC8(16), OCTAVO_ACC8(24), OCTAVO_ACC8(32)
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
  }
}

// acc[64 × 256] += a[64 × 16] · b[16 × 256]: a in registers as mma.m16n8k16 has it, 16 rows a warp; b in shared memory, rows of n
// (wgmma_descriptor_128b_depth_rows).
template <RowType Type>
__device__ __forceinline__ void wgmma_m64n256k16_registers(float* acc, const std::uint32_t (&a)[4], std::uint64_t b) {
  static_assert(Type != RowType::f32, "16-bit floats only");
  if constexpr (Type == RowType::bf16) {
      asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
        "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "
        "%58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, "
        "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
        "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, {%128, %129, %130, %131}, %132, 1, 1, 1, 1;\n"
        : OCTAVO_ACC8(0), OCTAVO_ACC8(8), OCTAVO_ACC8(16), OCTAVO_ACC8(24), OCTAVO_ACC8(32), OCTAVO_ACC8(40), OCTAVO_ACC8(48), OCTAVO_ACC8(56), OCTAVO_ACC8(64), OCTAVO_ACC8(72), OCTAVO_ACC8(80), OCTAVO_ACC8(88), OCTAVO_ACC8(96), OCTAVO_ACC8(104), OCTAVO_ACC8(112), OCTAVO_ACC8(120)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else {
      asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
        "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "
        "%58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, "
        "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
        "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, {%128, %129, %130, %131}, %132, 1, 1, 1, 1;\n"
        : OCTAVO_ACC8(0), OCTAVO_ACC8(8), OCTAVO_ACC8(16), OCTAVO_ACC8(24), OCTAVO_ACC8(32), OCTAVO_ACC8(40), OCTAVO_ACC8(48), OCTAVO_ACC8(56), OCTAVO_ACC8(64), OCTAVO_ACC8(72), OCTAVO_ACC8(80), OCTAVO_ACC8(88), OCTAVO_ACC8(96), OCTAVO_ACC8(104), OCTAVO_ACC8(112), OCTAVO_ACC8(120)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
}

// clang-format on

#undef OCTAVO_ACC8

}  // namespace octavo::cuda
