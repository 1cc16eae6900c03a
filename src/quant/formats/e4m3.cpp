#include "quant/formats/e4m3.h"

#include <array>
#include <cmath>
#include <limits>

namespace octavo {
namespace {

float value_of(int code) {
  const int exponent = (code >> 3) & 0xf;
  const int fraction = code & 0x7;
  if (exponent == 0xf && fraction == 0x7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? std::ldexp(float(fraction), -9) : std::ldexp(float(8 + fraction), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// 1 KB stays in the first cache; a ldexp per weight would cost more than reading the file.
const std::array<float, 256>& values() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> all{};
    for (int code = 0; code < 256; ++code) all[std::size_t(code)] = value_of(code);
    return all;
  }();
  return table;
}

}  // namespace

float e4m3_value(std::uint8_t code) { return values()[code]; }

void decode_e4m3(const std::uint8_t* codes, std::int64_t count, float scale, float* w) {
  const std::array<float, 256>& table = values();
  for (std::int64_t k = 0; k < count; ++k) w[k] = table[codes[k]] * scale;
}

}  // namespace octavo
