#include "ops/linear/linear.h"

#include <fmt/format.h>

#include "base/build.h"
#include "octavo/error.h"
#include "ops/linear/linear_backend.h"
#include "ops/op_work.h"
#include "ops/row_store.h"

namespace octavo {
namespace {

std::string who(const LinearWeights& w) { return w.name.empty() ? "linear" : fmt::format("linear '{}'", w.name); }

// Weight [N, K], bias, epilogue and y fit x [M, K]. x itself is checked by the caller, who knows its format.
void check_around(const std::string& op, const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  if (w.weight.shape.rank() != 2 || w.weight.device != x.device) {
    throw InvalidArgument(fmt::format("{}: the weight is {}; a matrix [N, K] on {} is needed", op, describe(w.weight), x.device.name()));
  }
  check_memory(op, "weight", w.weight);
  const std::int64_t n = w.out_features();
  if (x.columns() != w.in_features()) {
    throw InvalidArgument(fmt::format("{}: x has {} columns but the weight {} needs {}; it is probably the output of another layer", op, x.columns(),
                                      w.weight.shape.text(), w.in_features()));
  }
  if (w.bias) check_float_vector(op, "bias", *w.bias, n, x.device);
  if (epilogue.activation == Activation::silu_mul && (n % 2 != 0 || epilogue.mod_gate || epilogue.residual || w.weight.dtype != DType::s8)) {
    throw InvalidArgument(
        fmt::format("{}: silu_mul needs an s8 weight with an even number of rows, and no gate or residual; the weight is {}", op, describe(w.weight)));
  }
  if (epilogue.factor != 1 && w.weight.dtype == DType::s8)
    throw InvalidArgument(fmt::format("{}: a factor of {} needs a float weight; the weight is {}", op, epilogue.factor, describe(w.weight)));
  check_float_matrix(op, "y", y, x.rows(), epilogue.activation == Activation::silu_mul ? n / 2 : n, x.device);
  check_apart(op, "x", x, y);
  if (epilogue.mod_gate) check_vector(op, "mod_gate", *epilogue.mod_gate, DType::f32, n, x.device);
  if (epilogue.residual) check_float_matrix(op, "residual", *epilogue.residual, x.rows(), n, x.device);
}

void check_linear(const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  const std::string op = who(w);
  if (!is_float(w.weight.dtype)) {
    throw InvalidArgument(
        fmt::format("{}: x is {} but the weight is {}; quantise x for an s8 weight, or give a float weight", op, name_of(x.dtype), describe(w.weight)));
  }
  check_float_matrix(op, "x", x, x.rows(), x.columns(), x.device);
  check_around(op, x, w, epilogue, y);
}

void check_exact(const std::string& op, std::int64_t k) {
  if (k > kMaxExactK)
    throw InvalidArgument(fmt::format("{}: K is {}, but int32 sums of int8 products are exact only up to K = {}; use --precision bf16", op, k, kMaxExactK));
}

void check_linear(const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  const std::string op = who(w);
  if (w.weight.dtype != DType::s8)
    throw InvalidArgument(fmt::format("{}: x is quantised but the weight is {}; an s8 weight is needed", op, describe(w.weight)));
  check_quantized(op, "x", x, x.q.rows(), x.q.columns(), x.q.device);
  check_around(op, x.q, w, epilogue, y);
  if (!w.scale) throw InvalidArgument(fmt::format("{}: the weight {} is s8 but has no scale; the file is probably incomplete", op, w.weight.shape.text()));
  check_vector(op, "weight scale", *w.scale, DType::f32, w.out_features(), x.q.device);
  if (x.rotation_group != w.rotation_group) {
    throw InvalidArgument(fmt::format("{}: x is rotated in groups of {} but the weight in groups of {} (0: not rotated); the product would be meaningless", op,
                                      x.rotation_group, w.rotation_group));
  }
  check_exact(op, x.q.columns());
}

}  // namespace

void linear(ExecContext& ctx, const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  check_linear(x, w, epilogue, y);
  const OpSpan span(ctx, [&] { return product_work(w.name, x, w.weight, y, w.rounds_x); });
  if (y.device.is_cpu()) return ctx.reference ? linear_cpu(x, w, epilogue, y) : linear_cpu_fast(ctx, x, w, epilogue, y);
  if constexpr (build::has_cuda && kLinearHasCuda) return linear_cuda(ctx, x, w, epilogue, y);
  no_gpu_body("linear");
}

void linear(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  check_linear(x, w, epilogue, y);
  const OpSpan span(ctx, [&] { return product_work(w.name, x.q, w.weight, y); });
  if (y.device.is_cpu() && epilogue.activation == Activation::silu_mul) return linear_silu_mul_cpu(ctx, x, w, y);
  if (y.device.is_cpu()) return ctx.reference ? linear_cpu(x, w, epilogue, y) : linear_cpu_fast(ctx, x, w, epilogue, y);
  if constexpr (build::has_cuda && kLinearHasCuda) return linear_cuda(ctx, x, w, epilogue, y);
  no_gpu_body("linear");
}

void linear_halves(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const TensorView& y) {
  check_linear(x, w, {}, y);
  if (w.out_features() % 2 != 0 || w.bias)
    throw InvalidArgument(fmt::format("{}: the halves of {} rows{} are asked for; an even number and no bias are needed", who(w), w.out_features(),
                                      w.bias ? " with a bias" : ""));
  const OpSpan span(ctx, [&] { return product_work(w.name, x.q, w.weight, y); });
  if (y.device.is_cpu()) return linear_halves_cpu(ctx, x, w, y);
  if constexpr (build::has_cuda && kLinearHasCuda) return linear_halves_cuda(ctx, x, w, y);
  no_gpu_body("linear_halves");
}

void linear_accumulate(ExecContext& ctx, const TensorView& x, const TensorView& w, const TensorView& acc) {
  constexpr std::string_view op = "linear_accumulate";
  check_matrix(op, "x", x, DType::s8, x.rows(), x.columns(), x.device);
  check_matrix(op, "w", w, DType::s8, w.rows(), x.columns(), x.device);
  check_matrix(op, "acc", acc, DType::s32, x.rows(), w.rows(), x.device);
  check_exact(std::string(op), x.columns());
  if (acc.device.is_cpu()) return ctx.reference ? linear_accumulate_cpu(x, w, acc) : linear_accumulate_cpu_fast(ctx, x, w, acc);
  if constexpr (build::has_cuda && kLinearHasCuda) return linear_accumulate_cuda(ctx, x, w, acc);
  no_gpu_body(op);
}

}  // namespace octavo
