// The block formats of GGUF files. Blocks run along a row and never cross it; `blocks` need not be aligned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace octavo {

inline constexpr std::int64_t kQ8_0Block = 32, kQ8_0Bytes = 34;
inline constexpr std::int64_t kQ4_0Block = 32, kQ4_0Bytes = 18;
inline constexpr std::int64_t kQ4_KBlock = 256, kQ4_KBytes = 144;

// Q8_0: f16 d, then 32 signed codes.                                        w[i] = d · q[i]
void decode_q8_0(const std::byte* blocks, std::int64_t count, float* w);

// Q4_0: f16 d, then 16 bytes; low nibbles are elements 0..15, high ones 16..31.   w[i] = d · (q[i] − 8)
void decode_q4_0(const std::byte* blocks, std::int64_t count, float* w);

// Q4_K: f16 d, f16 dmin, 12 bytes with a 6-bit scale s and minimum m for each of 8 sub-blocks of 32, then 128 bytes; byte 32 c + i holds
// element 64 c + i in its low nibble and element 64 c + 32 + i in its high one.
//   w[32 j + i] = (d · s[j]) · q − (dmin · m[j])
// s[j] and m[j] for j < 4 are the low 6 bits of bytes j and j + 4; for j ≥ 4 the low and high nibble of byte j + 4 with bits 4, 5 from the top
// of bytes j − 4 and j.
void decode_q4_k(const std::byte* blocks, std::int64_t count, float* w);

}  // namespace octavo
