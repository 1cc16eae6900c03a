// FP8 weights: e4m3 codes and a float32 scale for the matrix or for each row.
#pragma once

#include <cstdint>

namespace octavo {

// The value of one code: sign, 4 exponent bits (bias 7), 3 fraction bits; e = 0 is subnormal (f · 2^-9); no infinity, 0x7f and 0xff are NaN.
// Exact in float32.
float e4m3_value(std::uint8_t code);

// w[k] = value(code[k]) · scale,   one float32 product.
void decode_e4m3(const std::uint8_t* codes, std::int64_t count, float scale, float* w);

// The nearest code, ties to even; beyond 448 the largest; NaN stays NaN.
std::uint8_t to_e4m3(float value);

// Quantises one row:   scale = max(max|w|, 1e-12) / 448,  code = nearest(w / scale).   Returns the scale.   spec section 5.1
float encode_e4m3(const float* w, std::int64_t count, std::uint8_t* codes);

}  // namespace octavo
