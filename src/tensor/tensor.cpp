#include "tensor/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "base/checked_math.h"
#include "octavo/error.h"

namespace octavo {

Shape::Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) : rank_(int(extents.size())) {
  if (extents.size() > kMaxRank) throw InternalError(fmt::format("tensor: {} axes, at most {} are supported", extents.size(), kMaxRank));
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product *= extents_[std::size_t(axis)];
  return product;
}

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(extents_.begin(), extents_.begin() + rank_, ", ")); }

TensorView::TensorView(void* memory, DType type, Shape extents, Device where)
    : data(memory), dtype(type), shape(extents), row_stride(extents.rank() == 0 ? 1 : extents[-1]), device(where) {}

std::int64_t TensorView::rows() const {
  std::int64_t product = 1;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) product *= shape[axis];
  return product;
}

TensorView TensorView::row_range(std::int64_t first, std::int64_t count) const {
  TensorView part = *this;
  part.data = row_bytes(first);
  part.shape = Shape{count, columns()};
  return part;
}

TensorView TensorView::column_range(std::int64_t first, std::int64_t count) const {
  TensorView part = *this;
  part.data = static_cast<std::byte*>(data) + std::size_t(first) * bytes_of(dtype);
  part.shape = Shape{rows(), count};
  return part;
}

TensorView TensorView::reshaped(Shape extents) const {
  if (!is_dense() || extents.elements() != shape.elements()) {
    throw InternalError(fmt::format("tensor: {} cannot be seen as {}", shape.text(), extents.text()));
  }
  return {data, dtype, extents, device};
}

Tensor::Tensor(DType dtype, Shape shape, Device device, std::string_view what) : dtype_(dtype), shape_(shape) {
  std::int64_t bytes = std::int64_t(bytes_of(dtype));
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto product = checked_mul(bytes, shape[axis]);
    if (!product || shape[axis] < 0) throw OutOfMemory(fmt::format("{}: a tensor {} of {} is larger than any memory", what, shape.text(), name_of(dtype)));
    bytes = *product;
  }
  buffer_ = Buffer(std::size_t(bytes), device, what);
}

Tensor Tensor::zeros(DType dtype, Shape shape, std::string_view what) {
  Tensor tensor(dtype, shape, {}, what);
  if (tensor.bytes() > 0) std::memset(tensor.as<void>(), 0, tensor.bytes());
  return tensor;
}

namespace {

// e4m3fn: 1 sign, 4 exponent (bias 7), 3 fraction bits; no infinity, 0x7f and 0xff are NaN.
float f8_e4m3_to_float(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 0xf;
  const int fraction = bits & 0x7;
  if (exponent == 0xf && fraction == 0x7) return std::nanf("");
  const float magnitude = exponent == 0 ? std::ldexp(float(fraction), -9) : std::ldexp(float(8 + fraction), exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

}  // namespace

void load_as_float(const void* from, DType dtype, std::int64_t count, float* to) {
  if (count == 0) return;  // an empty tensor has no memory, and memcpy wants some
  switch (dtype) {
    case DType::f32:
      std::memcpy(to, from, std::size_t(count) * sizeof(float));
      return;
    case DType::bf16: {
      const auto* source = static_cast<const bf16*>(from);
      for (std::int64_t i = 0; i < count; ++i) to[i] = to_float(source[i]);
      return;
    }
    case DType::f16: {
      const auto* source = static_cast<const f16*>(from);
      for (std::int64_t i = 0; i < count; ++i) to[i] = to_float(source[i]);
      return;
    }
    case DType::f64: {
      const auto* source = static_cast<const double*>(from);
      for (std::int64_t i = 0; i < count; ++i) to[i] = float(source[i]);
      return;
    }
    case DType::f8_e4m3: {
      const auto* source = static_cast<const std::uint8_t*>(from);
      for (std::int64_t i = 0; i < count; ++i) to[i] = f8_e4m3_to_float(source[i]);
      return;
    }
    default:
      throw InternalError(fmt::format("tensor: {} cannot be read as float", name_of(dtype)));
  }
}

void store_from_float(const float* from, std::int64_t count, DType dtype, void* to) {
  if (count == 0) return;
  switch (dtype) {
    case DType::f32:
      std::memcpy(to, from, std::size_t(count) * sizeof(float));
      return;
    case DType::bf16: {
      auto* target = static_cast<bf16*>(to);
      for (std::int64_t i = 0; i < count; ++i) target[i] = to_bf16(from[i]);
      return;
    }
    case DType::f16: {
      auto* target = static_cast<f16*>(to);
      for (std::int64_t i = 0; i < count; ++i) target[i] = to_f16(from[i]);
      return;
    }
    default:
      throw InternalError(fmt::format("tensor: floats cannot be stored as {}", name_of(dtype)));
  }
}

Tensor to_float_tensor(const TensorView& from) {
  Tensor result(DType::f32, from.shape, {}, "float copy");
  for (std::int64_t row = 0; row < from.rows(); ++row) {
    load_as_float(from.row_bytes(row), from.dtype, from.columns(), result.as<float>() + row * from.columns());
  }
  return result;
}

}  // namespace octavo
