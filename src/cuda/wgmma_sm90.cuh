// Warpgroup matrix products on int8 tiles in shared memory. PTX ISA 9.7.15 (wgmma). Needs sm_90a.
//   acc[64 × n] (+)= x[64 × 32] · w[n × 32]ᵀ      s8 × s8 → s32, exact, both operands K-major
// A warpgroup is 4 consecutive warps. acc of thread t (warp w = t/32 of 4, lane l): element 4j + 2h + b is
//   row 16w + l/4 + 8h,   column 8j + 2(l mod 4) + b.
#pragma once

#include <cstdint>

namespace octavo::cuda {

// Describes a K-major tile of 128-byte rows in the 128-byte swizzle that TMA writes: 8 rows are 1024 bytes (the stride field); the tile starts on a
// multiple of 1024. PTX ISA 9.7.15.5.1 (matrix descriptor). Addresses are in units of 16 bytes.
__device__ __forceinline__ std::uint64_t wgmma_descriptor_128b(std::uint32_t shared_address) {
  constexpr std::uint64_t kSwizzle128 = 1;
  constexpr std::uint64_t kEightRows = 1024 >> 4;
  return (kSwizzle128 << 62) | (kEightRows << 32) | (std::uint64_t{1} << 16) | ((shared_address & 0x3FFFF) >> 4);
}

// Registers written before it are seen by the products after it.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `kPending` committed groups are unfinished.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define OCTAVO_ACC8(i) \
  "+r"(acc[i]), "+r"(acc[i + 1]), "+r"(acc[i + 2]), "+r"(acc[i + 3]), "+r"(acc[i + 4]), "+r"(acc[i + 5]), "+r"(acc[i + 6]), "+r"(acc[i + 7])

// One product of depth 32 bytes into acc[0 … kN/2); `accumulate` false overwrites them.
template <int kN>
__device__ void wgmma_m64k32_s8(int* acc, std::uint64_t x, std::uint64_t w, bool accumulate);

// clang-format off
template <>
__device__ __forceinline__ void wgmma_m64k32_s8<256>(int* acc, std::uint64_t x, std::uint64_t w, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, p;\n}\n"
      : OCTAVO_ACC8(0), OCTAVO_ACC8(8), OCTAVO_ACC8(16), OCTAVO_ACC8(24), OCTAVO_ACC8(32), OCTAVO_ACC8(40), OCTAVO_ACC8(48), OCTAVO_ACC8(56),
        OCTAVO_ACC8(64), OCTAVO_ACC8(72), OCTAVO_ACC8(80), OCTAVO_ACC8(88), OCTAVO_ACC8(96), OCTAVO_ACC8(104), OCTAVO_ACC8(112), OCTAVO_ACC8(120)
      : "l"(x), "l"(w), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma_m64k32_s8<192>(int* acc, std::uint64_t x, std::uint64_t w, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
      "%96, %97, p;\n}\n"
      : OCTAVO_ACC8(0), OCTAVO_ACC8(8), OCTAVO_ACC8(16), OCTAVO_ACC8(24), OCTAVO_ACC8(32), OCTAVO_ACC8(40), OCTAVO_ACC8(48), OCTAVO_ACC8(56),
        OCTAVO_ACC8(64), OCTAVO_ACC8(72), OCTAVO_ACC8(80), OCTAVO_ACC8(88)
      : "l"(x), "l"(w), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma_m64k32_s8<128>(int* acc, std::uint64_t x, std::uint64_t w, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p;\n}\n"
      : OCTAVO_ACC8(0), OCTAVO_ACC8(8), OCTAVO_ACC8(16), OCTAVO_ACC8(24), OCTAVO_ACC8(32), OCTAVO_ACC8(40), OCTAVO_ACC8(48), OCTAVO_ACC8(56)
      : "l"(x), "l"(w), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma_m64k32_s8<96>(int* acc, std::uint64_t x, std::uint64_t w, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
      "%48, %49, p;\n}\n"
      : OCTAVO_ACC8(0), OCTAVO_ACC8(8), OCTAVO_ACC8(16), OCTAVO_ACC8(24), OCTAVO_ACC8(32), OCTAVO_ACC8(40)
      : "l"(x), "l"(w), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma_m64k32_s8<64>(int* acc, std::uint64_t x, std::uint64_t w, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p;\n}\n"
      : OCTAVO_ACC8(0), OCTAVO_ACC8(8), OCTAVO_ACC8(16), OCTAVO_ACC8(24)
      : "l"(x), "l"(w), "r"(static_cast<int>(accumulate)));
}
// clang-format on

#undef OCTAVO_ACC8

}  // namespace octavo::cuda
