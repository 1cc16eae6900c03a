#include "quant/formats/nf4.h"

#include <algorithm>

namespace octavo {
namespace {

float absmax_of(const Nf4Codes& codes, std::int64_t block) {
  if (codes.absmax != nullptr) return codes.absmax[block];
  const Nf4Nested& nested = codes.nested;
  const float scaled = nested.map[nested.codes[block]] * nested.absmax[block / nested.block];
  return scaled + nested.offset;
}

}  // namespace

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
