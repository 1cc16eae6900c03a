// How a CPU row op hands over a finished float32 row, and what it asks of the place it goes to.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <variant>

#include "cpu/convert.h"
#include "cpu/row_math.h"
#include "ops/checks.h"
#include "ops/row_output.h"

namespace octavo {

inline void check_quantized(std::string_view who, std::string_view what, const QuantizedView& view, std::int64_t rows, std::int64_t columns, Device device) {
  check_matrix(who, fmt::format("{}.q", what), view.q, DType::s8, rows, columns, device);
  check_vector(who, fmt::format("{}.scale", what), view.scale, DType::f32, rows, device);
  const int group = view.rotation_group;
  if (group != 0 && (!is_rotation_group(group) || columns % group != 0)) {
    throw InvalidArgument(fmt::format("{}: rotation group {} does not fit rows of {}; it must be a power of 4 that divides the row", who, group, columns));
  }
}

inline void check_row_output(std::string_view who, const RowOutput& out, std::int64_t rows, std::int64_t columns, Device device) {
  if (const auto* floats = std::get_if<TensorView>(&out)) {
    check_float_matrix(who, "out", *floats, rows, columns, device);
  } else {
    check_quantized(who, "out", std::get<QuantizedView>(out), rows, columns, device);
  }
}

// Writes `row` as row m of `out`. A quantised output rotates `row` in place first.
inline void store_row(float* row, std::int64_t m, const RowOutput& out) {
  if (const auto* floats = std::get_if<TensorView>(&out)) {
    store_from_float(row, floats->columns(), floats->dtype, floats->row_bytes(m));
    return;
  }
  const auto& quantized = std::get<QuantizedView>(out);
  const std::int64_t columns = quantized.q.columns();
  if (quantized.rotation_group != 0) rotate_row(row, columns, quantized.rotation_group);
  quantized.scale.as<float>()[m] = quantize_row(row, columns, quantized.q.row<std::int8_t>(m));
}

// The same bits, wider registers.
inline void store_row_fast(float* row, std::int64_t m, const RowOutput& out) {
  if (const auto* floats = std::get_if<TensorView>(&out)) {
    cpu::store_floats(row, floats->columns(), floats->dtype, floats->row_bytes(m));
    return;
  }
  const auto& quantized = std::get<QuantizedView>(out);
  const std::int64_t columns = quantized.q.columns();
  if (quantized.rotation_group != 0) cpu::rotate_row(row, columns, quantized.rotation_group);
  quantized.scale.as<float>()[m] = cpu::quantize_row(row, columns, quantized.q.row<std::int8_t>(m));
}

// Rows that one task of the pool takes: enough to pay for handing it out, few enough to share a short sequence.
inline constexpr std::int64_t kRowChunk = 4;

}  // namespace octavo
