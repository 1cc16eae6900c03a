#include "weights/stored_linear.h"

#include <fmt/format.h>

#include <cstring>

#include "octavo/error.h"
#include "quant/formats/e4m3.h"
#include "quant/formats/gguf_blocks.h"

namespace octavo {
namespace {

// Files may place a matrix at any byte; a row that is not aligned for its dtype takes the way over a copy.
void decode_plain(const std::byte* from, DType dtype, std::int64_t count, float* w) {
  if (reinterpret_cast<std::uintptr_t>(from) % bytes_of(dtype) == 0) return load_as_float(from, dtype, count, w);
  std::vector<float> aligned(static_cast<std::size_t>(count));  // as wide as the widest plain dtype
  std::memcpy(aligned.data(), from, std::size_t(count) * bytes_of(dtype));
  load_as_float(aligned.data(), dtype, count, w);
}

}  // namespace

void StoredLinear::require_readable(std::string_view who) const {
  if (problem.empty()) return;
  const std::string message = fmt::format("{}: {}", who, problem);
  if (is_unsupported) throw Unsupported(message);
  throw DataError(message);
}

std::int64_t StoredLinear::code_bytes() const {
  const std::int64_t elements = shape.elements();
  switch (format) {
    case LinearFormat::plain:
      return elements * std::int64_t(bytes_of(dtype));
    case LinearFormat::nf4:
      return (elements + 1) / 2;
    case LinearFormat::q8_0:
      return elements / kQ8_0Block * kQ8_0Bytes;
    case LinearFormat::q4_0:
      return elements / kQ4_0Block * kQ4_0Bytes;
    case LinearFormat::q4_k:
      return elements / kQ4_KBlock * kQ4_KBytes;
    default:
      return elements;
  }
}

void decode_rows(const StoredLinear& linear, std::int64_t first, std::int64_t count, float* w) {
  const std::int64_t columns = linear.in_features();
  const std::int64_t elements = count * columns;
  const std::int64_t skipped = first * columns;
  switch (linear.format) {
    case LinearFormat::plain:
      decode_plain(linear.codes + std::size_t(skipped) * bytes_of(linear.dtype), linear.dtype, elements, w);
      return;
    case LinearFormat::nf4:
      decode_nf4(linear.nf4, skipped, elements, w);
      return;
    case LinearFormat::q8_0:
      decode_q8_0(linear.codes + skipped / kQ8_0Block * kQ8_0Bytes, elements, w);
      return;
    case LinearFormat::q4_0:
      decode_q4_0(linear.codes + skipped / kQ4_0Block * kQ4_0Bytes, elements, w);
      return;
    case LinearFormat::q4_k:
      decode_q4_k(linear.codes + skipped / kQ4_KBlock * kQ4_KBytes, elements, w);
      return;
    case LinearFormat::e4m3:
      for (std::int64_t row = first; row < first + count; ++row, w += columns) {
        decode_e4m3(reinterpret_cast<const std::uint8_t*>(linear.codes) + row * columns, columns, linear.row_scale(row), w);
      }
      return;
    case LinearFormat::s8:
      for (std::int64_t row = first; row < first + count; ++row, w += columns) {
        decode_int8_row(reinterpret_cast<const std::int8_t*>(linear.codes) + row * columns, columns, linear.row_scale(row), linear.rotation_group, w);
        undo_smoothing(w, columns, linear.smoothing, linear.smooth.data());
      }
      return;
  }
}

std::string describe(const StoredLinear& linear) {
  if (linear.format == LinearFormat::plain) return std::string(name_of(linear.dtype));
  std::string text(name_of(linear.format));
  if (!linear.scale.empty()) text += linear.scale.size() == 1 ? ", one scale" : ", row scales";
  if (linear.format == LinearFormat::nf4 && linear.nf4.absmax == nullptr) text += ", nested scales";
  if (linear.rotation_group > 0) text += fmt::format(", rotated by {}", linear.rotation_group);
  if (linear.smoothing != Smoothing::none) text += ", smoothed";
  return text;
}

}  // namespace octavo
