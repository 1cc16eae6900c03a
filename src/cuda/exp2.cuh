// A power of two.
#pragma once

namespace octavo::cuda {

// 2^x, flushed to zero below 2^-126. PTX ISA 9.7.3.21 (ex2), within 2 ulp; 2^0 is 1.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace octavo::cuda
