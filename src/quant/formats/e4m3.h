// FP8 weights: e4m3 codes and a float32 scale for the matrix or for each row.
#pragma once

#include <cstdint>

namespace octavo {

// The value of one code: sign, 4 exponent bits (bias 7), 3 fraction bits; e = 0 is subnormal (f · 2^-9); no infinity, 0x7f and 0xff are NaN.
// Exact in float32.
float e4m3_value(std::uint8_t code);

// w[k] = value(code[k]) · scale,   one float32 product.
void decode_e4m3(const std::uint8_t* codes, std::int64_t count, float scale, float* w);

}  // namespace octavo
