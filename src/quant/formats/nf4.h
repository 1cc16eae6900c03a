// NF4 weights as bitsandbytes stores them: 4-bit codes into a table, one scale per `block` consecutive elements of the flattened matrix.
#pragma once

#include <cstdint>

namespace octavo {

// Scales that are themselves 8-bit codes:   absmax[i] = map[code[i]] · nested_absmax[i / block] + offset
struct Nf4Nested {
  const std::uint8_t* codes = nullptr;
  const float* map = nullptr;     // [256]
  const float* absmax = nullptr;  // one per `block` scales
  std::int64_t block = 256;
  float offset = 0;
};

struct Nf4Codes {
  const std::uint8_t* packed = nullptr;  // two codes a byte; the high nibble is the element with the even index
  const float* map = nullptr;            // [16], the file's own
  const float* absmax = nullptr;         // one per `block` elements; null if nested
  Nf4Nested nested{};
  std::int64_t block = 64;
};

// The quantiles of a normal distribution that NF4 is named for, ascending. Files carry their own copy.   spec section 5.2
inline constexpr float kNf4Map[16] = {-1.0f,
                                      -0.6961928009986877f,
                                      -0.5250730514526367f,
                                      -0.39491748809814453f,
                                      -0.28444138169288635f,
                                      -0.18477343022823334f,
                                      -0.09105003625154495f,
                                      0.0f,
                                      0.07958029955625534f,
                                      0.16093020141124725f,
                                      0.24611230194568634f,
                                      0.33791524171829224f,
                                      0.44070982933044434f,
                                      0.5626170039176941f,
                                      0.7229568362236023f,
                                      1.0f};

// Quantises `count` elements, blocks of `block` from the first on: absmax = max |w| of the block, code = nearest kNf4Map entry to w / absmax (the
// lower one of two that are equally near). packed [(count + 1) / 2], absmax [ceil(count / block)]. A zero block has absmax 0 and codes of 0.0.
void encode_nf4(const float* w, std::int64_t count, std::int64_t block, std::uint8_t* packed, float* absmax);

// w[i] = map[code[first + i]] · absmax[(first + i) / block]   for count elements of the flattened matrix; float32, one rounding per operation.
// `first` need not be the beginning of a block or of a byte: blocks do not know rows.
void decode_nf4(const Nf4Codes& codes, std::int64_t first, std::int64_t count, float* w);

}  // namespace octavo
