// The definition of attention_int8: codes of q and of k less its mean, float16 values; then one query at a time.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/attention/attention_int8_backend.h"
#include "quant/quantize.h"

namespace octavo {
namespace {

// Σ over the rows of k [Lk, C] / Lk, per column.
std::vector<float> mean_row(const Tensor& k) {
  const std::int64_t keys = k.shape()[0], columns = k.shape()[1];
  std::vector<float> total(std::size_t(columns), 0.0f), run(total);
  for (std::int64_t first = 0; first < keys; first += kMeanRun) {
    std::fill(run.begin(), run.end(), 0.0f);
    for (std::int64_t j = first; j < std::min(keys, first + kMeanRun); ++j) {
      for (std::int64_t c = 0; c < columns; ++c) run[std::size_t(c)] += k.as<float>()[j * columns + c];
    }
    for (std::int64_t c = 0; c < columns; ++c) total[std::size_t(c)] += run[std::size_t(c)];
  }
  for (float& value : total) value /= float(keys);
  return total;
}

// Codes and scales of rows [L, heads · D], a row of D numbers at a time; scale [heads, L].
void quantize_heads(const Tensor& x, std::int64_t heads, const TensorView& q, const TensorView& scale) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1], head_dim = columns / heads;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t h = 0; h < heads; ++h)
      scale.row<float>(h)[row] = quantize_row(x.as<float>() + row * columns + h * head_dim, head_dim, q.row<std::int8_t>(row) + h * head_dim);
  }
}

float rounded_to_f16(float value) { return to_float(to_f16(value)); }

}  // namespace

void attention_codes_cpu(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const AttentionCodes& codes) {
  quantize_heads(to_float_tensor(q), args.heads, codes.q, codes.q_scale);
  const Tensor keys = to_float_tensor(k), values = to_float_tensor(v);
  const std::vector<float> mean = mean_row(keys);
  const std::int64_t columns = k.columns(), head_dim = columns / args.kv_heads;
  for (std::int64_t i = 0; i < k.rows() * columns; ++i) keys.as<float>()[i] -= mean[std::size_t(i % columns)];
  quantize_heads(keys, args.kv_heads, codes.k, codes.k_scale);
  for (int h = 0; h < args.kv_heads; ++h) {
    const auto each_value = [&](const auto& use) {
      for (std::int64_t j = 0; j < v.rows(); ++j) {
        for (std::int64_t c = h * head_dim; c < (h + 1) * head_dim; ++c) use(j, c, values.as<float>()[j * columns + c]);
      }
    };
    std::uint32_t largest = 0;  // as bits: a NaN is larger than any number
    each_value([&](std::int64_t, std::int64_t, float value) { largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffu); });
    const float unit = value_unit(largest);
    codes.v_unit.as<float>()[h] = unit;
    each_value([&](std::int64_t j, std::int64_t c, float value) { codes.v.row<f16>(j)[c] = to_f16(value * unit); });
  }
}

void attention_product_cpu(ThreadPool& pool, const AttentionCodes& codes, const AttentionArgs& args, const TensorView& y) {
  const std::int64_t head_dim = y.columns() / args.heads, keys = codes.k.rows(), columns = codes.k.columns();
  const Tensor values = to_float_tensor(codes.v);
  pool.for_each(y.rows(), [&](std::int64_t i) {
    std::vector<float> out(std::size_t(y.columns()), 0.0f), p(static_cast<std::size_t>(keys));
    for (int h = 0; h < args.heads; ++h) {
      const int kv_head = h / (args.heads / args.kv_heads);
      const std::int8_t* q_head = codes.q.row<std::int8_t>(i) + h * head_dim;
      const float q_scale = codes.q_scale.row<float>(h)[i];
      float highest = -std::numeric_limits<float>::infinity();
      for (std::int64_t j = 0; j < keys; ++j) {
        const std::int8_t* k_head = codes.k.row<std::int8_t>(j) + kv_head * head_dim;
        std::int32_t dot = 0;
        for (std::int64_t d = 0; d < head_dim; ++d) dot += std::int32_t(q_head[d]) * std::int32_t(k_head[d]);
        p[std::size_t(j)] = ((float(dot) * q_scale) * codes.k_scale.row<float>(kv_head)[j]) * args.softmax_scale;
        highest = std::max(highest, p[std::size_t(j)]);
      }
      float* y_head = out.data() + h * head_dim;
      float total = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        const float weight = std::exp(p[std::size_t(j)] - highest);
        total += weight;
        const float stored = rounded_to_f16(weight);
        for (std::int64_t d = 0; d < head_dim; ++d) y_head[d] += stored * values.as<float>()[j * columns + kv_head * head_dim + d];
      }
      for (std::int64_t d = 0; d < head_dim; ++d) y_head[d] = (y_head[d] / total) / codes.v_unit.as<float>()[kv_head];
    }
    store_from_float(out.data(), y.columns(), y.dtype, y.row_bytes(i));
  });
}

}  // namespace octavo
