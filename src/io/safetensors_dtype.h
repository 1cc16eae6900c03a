// The container's names of dtypes beside ours.
#pragma once

#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace octavo {

struct SafetensorsDType {
  std::string_view name;
  int bits;                    // per element
  std::optional<DType> dtype;  // absent: the size is known, arithmetic is not
};

inline constexpr SafetensorsDType kSafetensorsDTypes[] = {
    {"F32", 32, DType::f32},     {"BF16", 16, DType::bf16},    {"F16", 16, DType::f16},      {"F64", 64, DType::f64},      {"F8_E4M3", 8, DType::f8_e4m3},
    {"I8", 8, DType::s8},        {"U8", 8, DType::u8},         {"I16", 16, DType::s16},      {"I32", 32, DType::s32},      {"I64", 64, DType::s64},
    {"BOOL", 8, DType::boolean}, {"F8_E5M2", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt}, {"U16", 16, std::nullopt},    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},   {"F4", 4, std::nullopt},      {"F6_E2M3", 6, std::nullopt}, {"F6_E3M2", 6, std::nullopt}, {"C64", 64, std::nullopt},
};

}  // namespace octavo
