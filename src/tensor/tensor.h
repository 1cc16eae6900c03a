// What things look like: a window onto memory, and the owner of one.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "device/buffer.h"
#include "device/device.h"
#include "tensor/dtype.h"

namespace octavo {

// Up to six extents, slowest first.
class Shape {
 public:
  static constexpr int kMaxRank = 6;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[std::size_t(axis < 0 ? axis + rank_ : axis)]; }
  std::int64_t elements() const;  // 1 for rank 0
  bool operator==(const Shape&) const = default;
  std::string text() const;  // "[4096, 4608]"

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

// A window onto memory that somebody else owns. The last axis is contiguous; `row_stride` is the distance in elements
// between consecutive indices of the second-to-last axis. Axes before that are dense over the rows.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape{};
  std::int64_t row_stride = 0;
  Device device{};

  TensorView() = default;
  // A dense tensor.
  TensorView(void* memory, DType type, Shape extents, Device where = {});

  std::int64_t rows() const;  // product of all extents but the last; 1 for rank 1
  std::int64_t columns() const { return shape.rank() == 0 ? 1 : shape[-1]; }
  bool is_dense() const { return shape.rank() < 2 || row_stride == columns(); }
  std::size_t bytes() const { return std::size_t(shape.elements()) * bytes_of(dtype); }

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  template <class T>
  T* row(std::int64_t index) const {
    return static_cast<T*>(data) + index * row_stride;
  }
  void* row_bytes(std::int64_t index) const { return static_cast<std::byte*>(data) + std::size_t(index * row_stride) * bytes_of(dtype); }

  // Rows [first, first + count) of a rank-2 view; columns [first, first + count) of a rank-2 view. No copy.
  TensorView row_range(std::int64_t first, std::int64_t count) const;
  TensorView column_range(std::int64_t first, std::int64_t count) const;
  // The same dense memory under another shape with as many elements.
  TensorView reshaped(Shape extents) const;
};

// Owns its memory.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape, Device device = {}, std::string_view what = "tensor");
  static Tensor zeros(DType dtype, Shape shape, std::string_view what = "tensor");  // on the CPU

  TensorView view() const { return {buffer_.data(), dtype_, shape_, buffer_.device()}; }
  operator TensorView() const { return view(); }  // NOLINT: a tensor may stand wherever a window is asked for
  template <class T>
  T* as() const {
    return static_cast<T*>(buffer_.data());
  }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::size_t bytes() const { return buffer_.size(); }

 private:
  Buffer buffer_{};
  DType dtype_ = DType::f32;
  Shape shape_{};
};

// Reads `count` stored numbers as float32. f32, bf16, f16, f64 and f8_e4m3 are known. Exact, except for f64 (rounded).
void load_as_float(const void* from, DType dtype, std::int64_t count, float* to);
// Stores float32 numbers as f32, bf16 or f16, rounded to nearest even.
void store_from_float(const float* from, std::int64_t count, DType dtype, void* to);
// A dense float32 copy on the CPU.
Tensor to_float_tensor(const TensorView& from);

}  // namespace octavo
