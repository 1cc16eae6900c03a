// How one stored number looks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace octavo {

enum class DType : std::uint8_t { f32, bf16, f16, f64, f8_e4m3, s8, u8, s16, s32, s64, boolean };

constexpr std::size_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::s64:
      return 8;
    case DType::f32:
    case DType::s32:
      return 4;
    case DType::bf16:
    case DType::f16:
    case DType::s16:
      return 2;
    default:
      return 1;
  }
}

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[] = {"f32", "bf16", "f16", "f64", "f8_e4m3", "s8", "u8", "s16", "s32", "s64", "bool"};
  return names[static_cast<int>(dtype)];
}

constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

// bfloat16 as stored: the upper half of a float32. Arithmetic happens in float32.
struct bf16 {
  std::uint16_t bits = 0;
};

inline float to_float(bf16 value) { return std::bit_cast<float>(std::uint32_t(value.bits) << 16); }

// Round to nearest even; NaN stays NaN (quiet), overflow becomes infinity.
inline bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {std::uint16_t((bits >> 16) | 0x0040u)};
  return {std::uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// IEEE binary16 as stored.
struct f16 {
  std::uint16_t bits = 0;
};

inline float to_float(f16 value) {
  const std::uint32_t sign = std::uint32_t(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t fraction = value.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = float(fraction) * 0x1p-24f;  // subnormal: exact
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}

inline f16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = std::uint16_t((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {std::uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu))};
  if (magnitude >= 0x477ff000u) return {std::uint16_t(sign | 0x7c00u)};  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {                                         // below 2^-14: subnormal, add-and-subtract rounds to nearest even
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;        // 0.5 has the ulp 2^-24 that subnormals have
    return {std::uint16_t(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {std::uint16_t(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace octavo
