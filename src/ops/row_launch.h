// Tensors as the row kernels see them. Included by the *_cuda.cpp files of row ops.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <variant>

#include "cuda/row/row.h"
#include "octavo/error.h"
#include "ops/exec_context.h"
#include "ops/row_output.h"

namespace octavo {

// Shared memory bounds the rotation groups that leave a warp: 64 KiB are there on every GPU since Turing.
inline constexpr int kMaxCudaRotationGroup = 16384;

inline cuda::RowType row_type(DType dtype) {
  return dtype == DType::f32 ? cuda::RowType::f32 : dtype == DType::bf16 ? cuda::RowType::bf16 : cuda::RowType::f16;
}

inline cuda::RowsIn rows_in(const TensorView& view) { return {view.data, view.row_stride, row_type(view.dtype)}; }

inline cuda::RowsOut rows_out(std::string_view who, const QuantizedView& view) {
  if (view.rotation_group > kMaxCudaRotationGroup) {
    throw Unsupported(fmt::format("{}: rotation group {} needs {} KiB of shared memory; on a GPU groups go up to {}, on the CPU there is no limit", who,
                                  view.rotation_group, view.rotation_group / 256, kMaxCudaRotationGroup));
  }
  float unit = 1;
  for (int group = view.rotation_group; group > 1; group /= 4) unit *= 2;
  return {view.q.data, view.q.row_stride, cuda::RowType::f32, view.scale.as<float>(), view.rotation_group, unit};
}

inline cuda::RowsOut rows_out(std::string_view who, const RowOutput& out) {
  if (const auto* quantized = std::get_if<QuantizedView>(&out)) return rows_out(who, *quantized);
  const auto& floats = std::get<TensorView>(out);
  return {.data = floats.data, .stride = floats.row_stride, .type = row_type(floats.dtype)};
}

inline void* stream_of(const ExecContext& ctx) { return ctx.stream == nullptr ? nullptr : ctx.stream->handle(); }

// Kernels count columns in 32 bits and rows as CTAs of one grid dimension.
inline void check_kernel_range(std::string_view who, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMax = 0x7fffffff;
  if (rows > kMax || columns > kMax) throw InvalidArgument(fmt::format("{}: [{}, {}] on a GPU: neither side may exceed {}", who, rows, columns, kMax));
}

}  // namespace octavo
