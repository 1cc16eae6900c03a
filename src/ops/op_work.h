// How much work an op is, for OpSpan: multiply-adds, and the bytes of every operand and result once.
#pragma once

#include <variant>

#include "ops/op_timer.h"
#include "ops/row_output.h"

namespace octavo {

inline double bytes_of_rows(const TensorView& view) { return double(view.bytes()); }
inline double bytes_of_rows(const QuantizedView& view) { return double(view.q.bytes()) + double(view.scale.bytes()); }
inline double bytes_of_rows(const RowOutput& out) {
  return std::visit([](const auto& view) { return bytes_of_rows(view); }, out);
}

// y [M, N] = x [M, K] wᵀ, w [N, K]: M N K multiply-adds. y may be narrower than N (silu_mul).
// float32 rows and bf16 weights: three times as many in bf16, since every float32 is the sum of three of them, which is how the tensor cores can take it.
// float16 weights beside wider rows that may be rounded: one product in float16.
inline OpWork product_work(std::string_view name, const TensorView& x, const TensorView& w, const TensorView& y, bool rounds_x = false) {
  const bool in_parts = x.dtype == DType::f32 && w.dtype == DType::bf16;
  return {.op = "linear",
          .name = std::string(name),
          .m = x.rows(),
          .n = w.rows(),
          .k = w.columns(),
          .math = in_parts || rounds_x || x.dtype == w.dtype ? w.dtype : DType::f32,
          .out = y.dtype,
          .macs = (in_parts ? 3.0 : 1.0) * double(x.rows()) * double(w.rows()) * double(w.columns()),
          .bytes = bytes_of_rows(x) + bytes_of_rows(w) + bytes_of_rows(y)};
}

// q [Lq, heads · D], k and v [Lk, ...]: two products of Lq Lk D a head, half of them with a causal mask.
inline OpWork attention_work(const TensorView& q, const TensorView& k, const TensorView& v, int heads, bool causal, const TensorView& y) {
  return {.op = "attention",
          .m = q.rows(),
          .n = k.rows(),
          .k = q.columns() / heads,
          .math = q.dtype == k.dtype ? q.dtype : DType::f32,
          .out = y.dtype,
          .macs = (causal ? 1.0 : 2.0) * double(q.rows()) * double(k.rows()) * double(q.columns()),
          .bytes = bytes_of_rows(q) + bytes_of_rows(k) + bytes_of_rows(v) + bytes_of_rows(y)};
}

// y [H, W, O] from w [O, kh, kw, C]: a product with M = H W, K = kh kw C. Beside float16 filters x becomes float16, too.
inline OpWork convolution_work(std::string_view name, const TensorView& x, const TensorView& w, const TensorView& y) {
  const std::int64_t k = w.shape.elements() / w.shape[0];
  return {.op = "conv2d",
          .name = std::string(name),
          .m = y.shape[0] * y.shape[1],
          .n = w.shape[0],
          .k = k,
          .math = x.dtype == w.dtype || w.dtype == DType::f16 ? w.dtype : DType::f32,
          .out = y.dtype,
          .macs = double(y.shape.elements()) * double(k),
          .bytes = bytes_of_rows(x) + bytes_of_rows(w) + bytes_of_rows(y)};
}

// An op that reads and writes `bytes` for the rows of x and multiplies nothing worth counting.
inline OpWork row_work(std::string_view op, const TensorView& x, double bytes) {
  return {.op = std::string(op), .m = x.rows(), .k = x.columns(), .math = x.dtype, .out = x.dtype, .bytes = bytes};
}

}  // namespace octavo
