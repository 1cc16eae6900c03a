#include "nn/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/stream.h"
#include "octavo/error.h"

namespace octavo::nn {
namespace {

// Dense rows as one copy, strided ones row by row.
void copy_rows(ExecContext& ctx, const TensorView& from, const TensorView& to) {
  if (from.is_dense()) return copy_bytes(to.data, to.device, from.data, from.device, from.bytes(), ctx.stream);
  const std::size_t row_bytes = std::size_t(from.columns()) * bytes_of(from.dtype);
  for (std::int64_t m = 0; m < from.rows(); ++m) copy_bytes(to.row_bytes(m), to.device, from.row_bytes(m), from.device, row_bytes, ctx.stream);
}

Tensor copied(ExecContext& ctx, const TensorView& from, Device device, std::string_view what) {
  Tensor copy(from.dtype, from.shape, device, what);
  copy_rows(ctx, from, copy);
  return copy;
}

}  // namespace

TensorView place(ExecContext& ctx, const TensorView& host, std::vector<Tensor>& owned, std::string_view what) {
  if (ctx.device.is_cpu()) return host;
  owned.push_back(to_device(ctx, host, what));
  return owned.back();
}

TensorView place_as(ExecContext& ctx, const TensorView& host, DType dtype, std::vector<Tensor>& owned, std::string_view what) {
  if (ctx.device.is_cpu() || host.dtype == dtype) return place(ctx, host, owned, what);
  const Tensor floats = to_float_tensor(host);
  Tensor rounded(dtype, host.shape, {}, what);
  store_weight(floats.as<float>(), host.shape.elements(), dtype, rounded.as<void>(), what);
  return place(ctx, rounded, owned, what);
}

void store_weight(const float* from, std::int64_t count, DType dtype, void* to, std::string_view who) {
  constexpr float kBeyond = 65520;  // rounds to 2^16, the first number that float16 does not have
  if (dtype == DType::f16) {
    const float* found = std::find_if(from, from + count, [](float v) { return std::fabs(v) >= kBeyond && std::isfinite(v); });
    if (found != from + count)
      throw DataError(fmt::format("{}: holds {}, beyond 65504, the largest number of fp16; use --precision bf16, f32 or w8a8", who, *found));
  }
  store_from_float(from, count, dtype, to);
}

Tensor to_device(ExecContext& ctx, const TensorView& from, std::string_view what) { return copied(ctx, from, ctx.device, what); }

Tensor to_cpu(ExecContext& ctx, const TensorView& from, std::string_view what) {
  Tensor copy = copied(ctx, from, Device{}, what);
  if (ctx.stream != nullptr) ctx.stream->synchronize();
  return copy;
}

}  // namespace octavo::nn
