// linear on a GPU: from tensors to a GemmProblem, from there to the chosen kernel.
#include <fmt/format.h>

#include "base/log.h"
#include "octavo/error.h"
#include "ops/linear/heads_launch.h"
#include "ops/linear/linear_backend.h"
#include "ops/linear/tuned.h"
#include "ops/linear/vector_cuda.h"
#include "ops/op_timer.h"
#include "ops/row_launch.h"

namespace octavo {
namespace {

void need_memory(const std::string& who, std::string_view what, const TensorView& view) {
  if (view.data == nullptr && view.shape.elements() > 0) throw InvalidArgument(fmt::format("{}: {} {} has a null pointer", who, what, view.shape.text()));
  if (view.shape.rank() >= 2 && view.rows() > 1 && view.row_stride < view.columns()) {
    throw InvalidArgument(fmt::format("{}: {} {} has rows {} elements apart, shorter than a row; give the stride of the underlying matrix", who, what,
                                      view.shape.text(), view.row_stride));
  }
}

void run(ExecContext& ctx, const std::string& who, const GemmProblem& problem, Device device) {
  if (problem.total_m() == 0 || problem.n == 0) return;
  const DeviceCaps& caps = caps_of(device);
  const LinearChoice choice = choose_linear(problem, caps);
  const GemmKernel* kernel = choice.kernel;
  if (kernel == nullptr) {
    throw Unsupported(fmt::format("{}: no W8A8 kernel for M = {}, N = {}, K = {} on {} (sm_{}); INT8 needs sm_75 or newer, this build has sm_75 to sm_120", who,
                                  problem.total_m(), problem.n, problem.k, caps.name, caps.sm));
  }
  const ArenaScope scope(*ctx.scratch);
  const std::int64_t workspace_bytes = kernel->workspace_bytes + (kernel->workspace_for != nullptr ? kernel->workspace_for(problem) : 0);
  void* workspace = workspace_bytes > 0 ? ctx.scratch->take(std::size_t(workspace_bytes), "partial sums of linear") : nullptr;
  if (log::enabled(log::Level::debug, "dispatch")) log::debug("dispatch", "{}: {}", who, explain(choice, problem, caps));
  note_kernel(ctx, kernel->id);
  kernel->launch(problem, choice.launch, workspace, ctx.stream->handle());
}

GemmOperands operands_of(const TensorView& x, const TensorView& w, const TensorView& y) {
  return {.x = x.as<const std::int8_t>(),
          .x_stride = x.row_stride,
          .w = w.as<const std::int8_t>(),
          .w_stride = w.row_stride,
          .y = y.data,
          .y_stride = y.row_stride,
          .m = x.rows()};
}

GemmProblem plain_problem(const QuantizedView& x, const LinearWeights& w, const TensorView& y) {
  GemmProblem problem{.n = w.out_features(), .k = w.in_features(), .out = y.dtype};
  problem.group[0] = operands_of(x.q, w.weight, y);
  problem.group[0].x_scale = x.scale.as<const float>();
  problem.group[0].w_scale = w.scale->as<const float>();
  return problem;
}

HeadNormLaunch launch_of(const HeadNormRope& heads, std::int64_t outputs) {
  return {.weight = {heads.norm_q.data, heads.norm_k.data},
          .weight_type = row_type(heads.norm_q.dtype),
          .cos = heads.cos.as<const float>(),
          .sin = heads.sin.as<const float>(),
          .table_stride = heads.cos.row_stride,
          .eps = heads.eps,
          .columns = int(outputs / 3)};
}

}  // namespace

void linear_cuda(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  const std::string who = w.name.empty() ? "linear" : fmt::format("linear '{}'", w.name);
  need_memory(who, "x", x.q);
  need_memory(who, "x scale", x.scale);
  need_memory(who, "weight", w.weight);
  need_memory(who, "weight scale", *w.scale);
  need_memory(who, "y", y);
  const bool has_tail = epilogue.mod_gate.has_value() || epilogue.residual.has_value();
  if (has_tail && epilogue.activation != Activation::none)
    throw Unsupported(fmt::format("{}: an activation together with a gate or a residual; apply them in two ops", who));
  if (epilogue.residual && epilogue.residual->dtype != y.dtype) {
    throw Unsupported(fmt::format("{}: the residual is {} but y is {}; on a GPU both have one type", who, name_of(epilogue.residual->dtype), name_of(y.dtype)));
  }
  const ArenaScope scope(*ctx.scratch);
  GemmProblem problem = plain_problem(x, w, y);
  problem.epilogue = has_tail                                      ? GemmEpilogue::gated_residual
                     : epilogue.activation == Activation::silu     ? GemmEpilogue::silu
                     : epilogue.activation == Activation::silu_mul ? GemmEpilogue::silu_mul
                                                                   : GemmEpilogue::plain;
  GemmOperands& operands = problem.group[0];
  if (w.bias) operands.bias = as_f32_on_gpu(ctx, *w.bias);
  if (epilogue.mod_gate) operands.mod_gate = as_f32_on_gpu(ctx, *epilogue.mod_gate);
  if (epilogue.residual) {
    operands.residual = epilogue.residual->data;
    operands.residual_stride = epilogue.residual->row_stride;
  }
  run(ctx, who, problem, y.device);
}

// Every other row of a matrix is a matrix of twice the stride. Its scales are scratch, written by the kernel before: a product may read them only behind its
// wait for that kernel, as it does.
void linear_halves_cuda(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const TensorView& y) {
  const std::int64_t half = w.out_features() / 2;
  const ArenaScope scope(*ctx.scratch);
  float* scale = halves_on_gpu(ctx, *w.scale);
  for (std::int64_t h = 0; h < 2; ++h) {
    LinearWeights rows{.name = w.name, .weight = w.weight, .rotation_group = w.rotation_group};
    rows.weight.data = w.weight.row_bytes(h);
    rows.weight.shape = {half, w.in_features()};
    rows.weight.row_stride = 2 * w.weight.row_stride;
    rows.scale = TensorView(scale + h * half, DType::f32, {half}, y.device);
    linear_cuda(ctx, x, rows, {}, y.column_range(h * half, half));
  }
}

bool fits_head_norm_rope_cuda(const QuantizedView& x, const LinearWeights& w, const HeadNormRope& heads, const TensorView& y) {
  return !w.bias && heads.norm_q.shape.elements() == kFusedHeadDim && heads.norm_q.dtype == heads.norm_k.dtype &&
         heads.cos.row_stride == heads.sin.row_stride && x.q.rows() > 0 &&
         fits_heads_sm90(plain_problem(x, w, y), launch_of(heads, w.out_features()), caps_of(y.device).sm);
}

void linear_head_norm_rope_cuda(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const HeadNormRope& heads, const TensorView& y) {
  constexpr std::string_view kKernel = "sm90_64x256x128_s5_pp, head norm and RoPE";
  if (log::enabled(log::Level::debug, "dispatch"))
    log::debug("dispatch", "linear '{}': M {}, N {}, K {}: {}", w.name, x.q.rows(), w.out_features(), w.in_features(), kKernel);
  note_kernel(ctx, kKernel);
  launch_heads_sm90(plain_problem(x, w, y), launch_of(heads, w.out_features()), ctx.stream->handle());
}

void linear_accumulate_cuda(ExecContext& ctx, const TensorView& x, const TensorView& w, const TensorView& acc) {
  need_memory("linear_accumulate", "x", x);
  need_memory("linear_accumulate", "w", w);
  need_memory("linear_accumulate", "acc", acc);
  GemmProblem problem{.n = w.rows(), .k = x.columns(), .out = DType::s32};
  problem.group[0] = operands_of(x, w, acc);
  run(ctx, "linear_accumulate", problem, acc.device);
}

}  // namespace octavo
