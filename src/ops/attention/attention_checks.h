// What attention and attention_int8 ask of their tensors.
#pragma once

#include "ops/attention/attention.h"
#include "ops/checks.h"

namespace octavo {

inline void check_attention(std::string_view op, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args,
                            const TensorView& y) {
  if (args.heads < 1 || args.kv_heads < 1 || args.heads % args.kv_heads != 0 || q.columns() % args.heads != 0) {
    throw InvalidArgument(
        fmt::format("{}: q {} does not split into {} heads that share {} key/value heads evenly", op, q.shape.text(), args.heads, args.kv_heads));
  }
  const std::int64_t kv_columns = q.columns() / args.heads * args.kv_heads;
  check_float_matrix(op, "q", q, q.rows(), q.columns(), q.device);
  check_float_matrix(op, "k", k, k.rows(), kv_columns, q.device);
  check_float_matrix(op, "v", v, k.rows(), kv_columns, q.device);
  check_float_matrix(op, "y", y, q.rows(), q.columns(), q.device);
  check_apart(op, "q", q, y);
  check_apart(op, "k", k, y);
  check_apart(op, "v", v, y);
  if (q.rows() > 0 && k.rows() == 0) throw InvalidArgument(fmt::format("{}: {} queries but no key; a softmax over nothing has no value", op, q.rows()));
  if (args.causal && q.rows() != k.rows())
    throw InvalidArgument(fmt::format("{}: causal needs as many keys as queries, but there are {} and {}", op, k.rows(), q.rows()));
}

}  // namespace octavo
