// What every op asks of its tensors, with the same words on every device. `who` is the op, with the checkpoint name where there is one.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "octavo/error.h"
#include "tensor/tensor.h"

namespace octavo {

inline std::string describe(const TensorView& view) { return fmt::format("{} {} on {}", name_of(view.dtype), view.shape.text(), view.device.name()); }

// Rows must not overlap, and there must be memory behind them.
inline void check_memory(std::string_view who, std::string_view what, const TensorView& view) {
  if (view.shape.elements() == 0) return;
  if (view.data == nullptr) throw InvalidArgument(fmt::format("{}: {} {} has no memory (null pointer)", who, what, describe(view)));
  if (view.rows() > 1 && view.row_stride < view.columns()) {
    throw InvalidArgument(
        fmt::format("{}: {} {} has a row stride of {} elements, shorter than its {} columns", who, what, describe(view), view.row_stride, view.columns()));
  }
}

// `view` seen as rows × columns is f32, bf16 or f16 of exactly this size.
inline void check_float_matrix(std::string_view who, std::string_view what, const TensorView& view, std::int64_t rows, std::int64_t columns, Device device) {
  if (!is_float(view.dtype) || view.rows() != rows || view.columns() != columns || view.device != device) {
    throw InvalidArgument(fmt::format("{}: {} is {}; f32, bf16 or f16 [{}, {}] on {} is needed", who, what, describe(view), rows, columns, device.name()));
  }
  check_memory(who, what, view);
}

inline void check_matrix(std::string_view who, std::string_view what, const TensorView& view, DType dtype, std::int64_t rows, std::int64_t columns,
                         Device device) {
  if (view.dtype != dtype || view.rows() != rows || view.columns() != columns || view.device != device) {
    throw InvalidArgument(fmt::format("{}: {} is {}; {} [{}, {}] on {} is needed", who, what, describe(view), name_of(dtype), rows, columns, device.name()));
  }
  check_memory(who, what, view);
}

// One number per feature: any shape with `count` elements, dense.
inline void check_float_vector(std::string_view who, std::string_view what, const TensorView& view, std::int64_t count, Device device) {
  if (!is_float(view.dtype) || view.shape.elements() != count || !view.is_dense() || view.device != device) {
    throw InvalidArgument(fmt::format("{}: {} is {}; f32, bf16 or f16 [{}] on {} is needed", who, what, describe(view), count, device.name()));
  }
  check_memory(who, what, view);
}

inline void check_vector(std::string_view who, std::string_view what, const TensorView& view, DType dtype, std::int64_t count, Device device) {
  if (view.dtype != dtype || view.shape.elements() != count || !view.is_dense() || view.device != device) {
    throw InvalidArgument(fmt::format("{}: {} is {}; {} [{}] on {} is needed", who, what, describe(view), name_of(dtype), count, device.name()));
  }
  check_memory(who, what, view);
}

// For ops that read x again after they have begun to write y.
inline void check_apart(std::string_view who, std::string_view what, const TensorView& x, const TensorView& y) {
  if (y.data == x.data && y.shape.elements() > 0 && x.shape.elements() > 0) {
    throw InvalidArgument(fmt::format("{}: y and {} {} are the same memory; give y a place of its own", who, what, describe(x)));
  }
}

[[noreturn]] inline void no_gpu_body(std::string_view who) { throw Unsupported(fmt::format("{}: no GPU body yet; use --device cpu", who)); }

}  // namespace octavo
