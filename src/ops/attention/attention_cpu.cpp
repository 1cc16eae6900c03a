// The definition of attention: one query at a time, scores, softmax, weighted sum.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/attention/attention_backend.h"

namespace octavo {

void attention_cpu(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y) {
  const std::int64_t head_dim = q.columns() / args.heads;
  const std::int64_t kv_columns = k.columns();
  const Tensor keys = to_float_tensor(k);
  const Tensor values = to_float_tensor(v);
  std::vector<float> query(static_cast<std::size_t>(q.columns()));
  std::vector<float> out(static_cast<std::size_t>(q.columns()));
  std::vector<float> p(static_cast<std::size_t>(k.rows()));
  for (std::int64_t i = 0; i < q.rows(); ++i) {
    load_as_float(q.row_bytes(i), q.dtype, q.columns(), query.data());
    std::fill(out.begin(), out.end(), 0.0f);
    const std::int64_t seen = args.causal ? i + 1 : k.rows();
    for (int h = 0; h < args.heads; ++h) {
      const std::int64_t kv_first = h / (args.heads / args.kv_heads) * head_dim;
      const float* q_head = query.data() + h * head_dim;
      float* y_head = out.data() + h * head_dim;
      float highest = -INFINITY;
      for (std::int64_t j = 0; j < seen; ++j) {
        float dot = 0;
        for (std::int64_t d = 0; d < head_dim; ++d) dot += q_head[d] * keys.as<float>()[j * kv_columns + kv_first + d];
        p[std::size_t(j)] = args.softmax_scale * dot;
        highest = std::max(highest, p[std::size_t(j)]);
      }
      float total = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        p[std::size_t(j)] = std::exp(p[std::size_t(j)] - highest);
        total += p[std::size_t(j)];
      }
      for (std::int64_t j = 0; j < seen; ++j) {
        for (std::int64_t d = 0; d < head_dim; ++d) y_head[d] += p[std::size_t(j)] * values.as<float>()[j * kv_columns + kv_first + d];
      }
      for (std::int64_t d = 0; d < head_dim; ++d) y_head[d] /= total;
    }
    store_from_float(out.data(), y.columns(), y.dtype, y.row_bytes(i));
  }
}

}  // namespace octavo
