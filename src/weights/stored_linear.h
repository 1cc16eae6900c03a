// A projection as a file stores it, whatever the file's dialect: which format, where the numbers lie, what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/formats/int8.h"
#include "quant/formats/nf4.h"
#include "tensor/tensor.h"

namespace octavo {

enum class LinearFormat : std::uint8_t { plain, e4m3, nf4, s8, q8_0, q4_0, q4_k };

constexpr std::string_view name_of(LinearFormat format) {
  constexpr std::string_view names[] = {"plain", "fp8", "nf4", "int8", "q8_0", "q4_0", "q4_k"};
  return names[static_cast<int>(format)];
}

struct StoredLinear {
  std::string module{};  // the name without ".weight"
  LinearFormat format = LinearFormat::plain;
  std::string_view dialect{};        // who writes it so, for people: "ComfyUI int8_tensorwise"
  Shape shape{};                     // [out, in], logical
  const std::byte* codes = nullptr;  // rows one behind the other, in the file's own packing
  DType dtype = DType::f32;          // of plain numbers: f32, bf16 or f16
  std::vector<float> scale{};        // e4m3, s8: one for the matrix or one per row
  Nf4Codes nf4{};
  int rotation_group = 0;       // s8: ConvRot group; 0: not rotated
  std::vector<float> smooth{};  // s8: [in], or empty
  Smoothing smoothing = Smoothing::none;
  std::int64_t bytes = 0;       // in the file: codes, scales and all other tensors of it but the bias
  std::string problem{};        // not empty: it cannot be read, and why; the other fields are then not complete
  bool is_unsupported = false;  // the problem is our ignorance, not the file's damage

  std::int64_t out_features() const { return shape[0]; }
  std::int64_t in_features() const { return shape[1]; }
  std::int64_t code_bytes() const;  // of the matrix itself, without scales
  float row_scale(std::int64_t row) const { return scale.size() == 1 ? scale[0] : scale[std::size_t(row)]; }
  // Throws DataError or Unsupported "<who>: <problem>" if there is one.
  void require_readable(std::string_view who) const;
};

// Rows [first, first + count) of the weight that the model was trained with, as float32 [count, in]: each format's published rule, one rounding per
// operation; rotation and smoothing are undone. May be called from several threads. Must be readable.
void decode_rows(const StoredLinear& linear, std::int64_t first, std::int64_t count, float* w);

// "int8, row scales, rotated by 256": what a person wants to know about one layer.
std::string describe(const StoredLinear& linear);

}  // namespace octavo
