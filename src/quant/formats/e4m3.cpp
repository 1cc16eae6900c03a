#include "quant/formats/e4m3.h"

#include <algorithm>
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

std::uint8_t to_e4m3(float value) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return std::uint8_t(sign | 0x7f);
  const float magnitude = std::min(std::fabs(value), 448.0f);
  // A quantum is 2^-9 below 2^-6 and an eighth of the power of two above. rint rounds halves to even quanta, and even quanta have even codes.
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : -6, -6);
  const int quanta = int(std::rint(std::ldexp(magnitude, 3 - exponent)));  // 0..16; 8..15 for normal numbers, 16 carries into the exponent
  return std::uint8_t(sign | (((exponent + 6) << 3) + quanta));
}

float encode_e4m3(const float* w, std::int64_t count, std::uint8_t* codes) {
  float absmax = 1e-12f;
  for (std::int64_t k = 0; k < count; ++k) absmax = std::max(absmax, std::fabs(w[k]));
  const float scale = absmax / 448.0f;
  for (std::int64_t k = 0; k < count; ++k) codes[k] = to_e4m3(w[k] / scale);
  return scale;
}

}  // namespace octavo
