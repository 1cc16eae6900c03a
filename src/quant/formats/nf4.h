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

// w[i] = map[code[first + i]] · absmax[(first + i) / block]   for count elements of the flattened matrix; float32, one rounding per operation.
// `first` need not be the beginning of a block or of a byte: blocks do not know rows.
void decode_nf4(const Nf4Codes& codes, std::int64_t first, std::int64_t count, float* w);

}  // namespace octavo
