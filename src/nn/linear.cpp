#include "nn/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/checked_math.h"
#include "octavo/error.h"

namespace octavo::nn {
namespace {

// Rows that one task converts at load: at 4 608 columns a task reads about 300 KB, long enough to hide handing it out.
constexpr std::int64_t kRowsPerTask = 32;

TensorView as_matrix(const TensorView& weight) {
  const std::int64_t out = weight.shape[0];
  return weight.reshaped({out, weight.shape.elements() / std::max<std::int64_t>(out, 1)});
}

void for_row_tasks(ExecContext& ctx, std::int64_t rows, const std::function<void(std::int64_t first, std::int64_t count)>& body) {
  ctx.pool->for_each(ceil_div(rows, kRowsPerTask), [&](std::int64_t task) {
    const std::int64_t first = task * kRowsPerTask;
    body(first, std::min(kRowsPerTask, rows - first));
  });
}

// Codes and scales of `weight`, whose rows become rows [first_row, ...) of q.
void quantize_weight(ExecContext& ctx, const TensorView& weight, std::int64_t first_row, const TensorView& q, const TensorView& scale) {
  for_row_tasks(ctx, weight.rows(), [&](std::int64_t first, std::int64_t count) {
    std::vector<float> row(std::size_t(weight.columns()));
    for (std::int64_t n = first; n < first + count; ++n) {
      load_as_float(weight.row_bytes(n), weight.dtype, weight.columns(), row.data());
      scale.as<float>()[first_row + n] = quantize_weight_row(row.data(), weight.columns(), q.row<std::int8_t>(first_row + n));
    }
  });
}

Tensor converted(ExecContext& ctx, const TensorView& weight, DType dtype) {
  Tensor copy(dtype, weight.shape, {}, "converted weight");
  const TensorView to = copy;
  for_row_tasks(ctx, weight.rows(), [&](std::int64_t first, std::int64_t count) {
    std::vector<float> row(std::size_t(weight.columns()));
    for (std::int64_t n = first; n < first + count; ++n) {
      load_as_float(weight.row_bytes(n), weight.dtype, weight.columns(), row.data());
      store_from_float(row.data(), weight.columns(), dtype, to.row_bytes(n));
    }
  });
  return copy;
}

}  // namespace

Linear::Linear(ExecContext& ctx, const WeightStore& store, const std::vector<LinearPart>& parts, bool has_bias, const NumberFormat& format) {
  const bool is_s8 = format.storage == DType::s8 && format.granularity == Granularity::per_channel;
  if (!is_s8 && (format.is_quantized() || !is_float(format.storage))) {
    throw Unsupported(fmt::format("{}: weights in {} are not built; f32, bf16 and s8 per channel are", store.component(), name_of(format.storage)));
  }
  if (!ctx.device.is_cpu()) throw Unsupported(fmt::format("{}: weights are not placed on {} yet; use --device cpu", store.component(), ctx.device.name()));

  std::map<std::string, std::int64_t> rows_taken;
  for (const LinearPart& part : parts) {
    const TensorView whole = as_matrix(store.get(part.module + ".weight"));
    std::int64_t& first = rows_taken[part.module];
    const std::int64_t rows = part.rows > 0 ? part.rows : whole.rows() - first;
    LinearWeights weights;
    weights.name = part.module;
    weights.weight = whole.row_range(first, rows);
    if (has_bias) {
      const TensorView bias = store.get(part.module + ".bias");
      weights.bias = TensorView(static_cast<std::byte*>(bias.data) + std::size_t(first) * bytes_of(bias.dtype), bias.dtype, {rows});
      mapped_bytes_ += std::int64_t(weights.bias->bytes());
    }
    first += rows;
    if (format.storage == DType::bf16 && weights.weight.dtype != DType::bf16) {
      owned_.push_back(converted(ctx, weights.weight, DType::bf16));
      weights.weight = owned_.back();
    } else if (!is_s8) {
      mapped_bytes_ += std::int64_t(weights.weight.bytes());
    }
    parts_.push_back(weights);
  }
  if (is_s8) quantize(ctx, store, parts);
}

void Linear::quantize(ExecContext& ctx, const WeightStore& store, const std::vector<LinearPart>& stored) {
  LinearWeights fused;
  fused.name = stored.size() == 1 ? stored[0].module : fmt::format("{} (+{})", stored[0].module, stored.size() - 1);
  Tensor q(DType::s8, {out_features(), in_features()}, {}, fused.name);
  Tensor scale(DType::f32, {out_features()}, {}, fused.name);
  const bool has_bias = parts_[0].bias.has_value();
  Tensor bias = has_bias ? Tensor(DType::f32, {out_features()}, {}, fused.name) : Tensor();
  std::int64_t first_row = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const LinearWeights& part = parts_[i];
    quantize_weight(ctx, part.weight, first_row, q, scale);
    if (has_bias) load_as_float(part.bias->data, part.bias->dtype, part.out_features(), bias.as<float>() + first_row);
    first_row += part.out_features();
    const bool is_last_of_module = i + 1 == parts_.size() || stored[i + 1].module != stored[i].module;
    if (is_last_of_module) store.release(stored[i].module + ".weight");
  }
  fused.weight = q;
  fused.scale = scale;
  if (has_bias) fused.bias = bias;
  mapped_bytes_ = 0;
  parts_.assign(1, fused);
  owned_.clear();
  owned_.push_back(std::move(q));
  owned_.push_back(std::move(scale));
  if (has_bias) owned_.push_back(std::move(bias));
}

void Linear::forward(ExecContext& ctx, const RowOutput& x, const Epilogue& epilogue, const TensorView& y) const {
  std::int64_t first = 0;
  for (const LinearWeights& part : parts_) {
    const std::int64_t count = part.out_features();
    Epilogue slice = epilogue;
    if (slice.mod_gate) slice.mod_gate = TensorView(slice.mod_gate->as<float>() + first, DType::f32, {count}, slice.mod_gate->device);
    if (slice.residual) slice.residual = slice.residual->column_range(first, count);
    const TensorView columns = parts_.size() == 1 ? y : y.column_range(first, count);
    std::visit([&](const auto& rows) { linear(ctx, rows, part, slice, columns); }, x);
    first += count;
  }
}

void Linear::add_to_bias(const TensorView& row) {
  if (parts_.size() != 1 || parts_[0].scale || !parts_[0].bias) throw InternalError("linear: a row is added to the bias of a single float projection only");
  LinearWeights& part = parts_[0];
  Tensor sum = to_float_tensor(*part.bias);
  const Tensor addend = to_float_tensor(row);
  for (std::int64_t n = 0; n < part.out_features(); ++n) sum.as<float>()[n] += addend.as<float>()[n];
  part.bias = sum;
  owned_.push_back(std::move(sum));
}

std::int64_t Linear::out_features() const {
  std::int64_t sum = 0;
  for (const LinearWeights& part : parts_) sum += part.out_features();
  return sum;
}

std::int64_t Linear::in_features() const { return parts_.at(0).in_features(); }

std::int64_t Linear::owned_bytes() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : owned_) sum += std::int64_t(tensor.bytes());
  return sum;
}

}  // namespace octavo::nn
