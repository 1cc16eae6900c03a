// The power of two that brings float32 numbers into float16's range before they are rounded to it, and its inverse for the sums they go into.
#pragma once

#include <cstdint>

namespace octavo::cuda {

struct HalfUnit {
  float unit = 1;   // largest · unit lies in [2^14, 2^15)
  float scale = 1;  // 1 / unit, exact

  // `largest` = max |x|. A number 2^29 times smaller is still a normal float16. An infinity gets the least unit, and shows.
  __device__ __forceinline__ explicit HalfUnit(float largest) {
    const int exponent = int(__float_as_uint(largest) >> 23);  // biased, 0 for zeros and subnormals, 255 for an infinity
    const int of_unit = 127 + 14 + 127 - exponent < 253 ? 127 + 14 + 127 - exponent : 253;
    unit = __uint_as_float(std::uint32_t(of_unit) << 23);
    scale = __uint_as_float(std::uint32_t(254 - of_unit) << 23);
  }
};

}  // namespace octavo::cuda
