#include "quant/formats/nf4.h"

#include <algorithm>
#include <cmath>

namespace octavo {
namespace {

float absmax_of(const Nf4Codes& codes, std::int64_t block) {
  if (codes.absmax != nullptr) return codes.absmax[block];
  const Nf4Nested& nested = codes.nested;
  const float scaled = nested.map[nested.codes[block]] * nested.absmax[block / nested.block];
  return scaled + nested.offset;
}

std::uint8_t nearest_code(float value) {
  std::uint8_t code = 0;
  while (code < 15 && value > (kNf4Map[code] + kNf4Map[code + 1]) / 2) ++code;
  return code;
}

}  // namespace

void encode_nf4(const float* w, std::int64_t count, std::int64_t block, std::uint8_t* packed, float* absmax) {
  for (std::int64_t first = 0; first < count; first += block) {
    const std::int64_t end = std::min(first + block, count);
    float largest = 0;
    for (std::int64_t i = first; i < end; ++i) largest = std::max(largest, std::fabs(w[i]));
    absmax[first / block] = largest;
    for (std::int64_t i = first; i < end; ++i) {
      const std::uint8_t code = nearest_code(largest > 0 ? w[i] / largest : 0.0f);
      if (i % 2 == 0) {
        packed[i / 2] = std::uint8_t(code << 4);
      } else {
        packed[i / 2] = std::uint8_t(packed[i / 2] | code);
      }
    }
  }
}

void decode_nf4(const Nf4Codes& codes, std::int64_t first, std::int64_t count, float* w) {
  for (std::int64_t i = first; i < first + count;) {
    const std::int64_t block = i / codes.block;
    const std::int64_t end = std::min((block + 1) * codes.block, first + count);
    const float absmax = absmax_of(codes, block);
    for (; i < end; ++i) {
      const std::uint8_t pair = codes.packed[i / 2];
      *w++ = codes.map[i % 2 == 0 ? pair >> 4 : pair & 0xf] * absmax;
    }
  }
}

}  // namespace octavo
