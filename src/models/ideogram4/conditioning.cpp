#include "models/ideogram4/conditioning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"
#include "models/checkpoint.h"
#include "nn/placement.h"
#include "nn/rows.h"
#include "octavo/error.h"
#include "ops/embed/embed.h"
#include "ops/gated_act/gated_act.h"
#include "ops/norm_modulate/norm_modulate.h"
#include "ops/rope/rope.h"

namespace octavo::ideogram4 {
namespace {

constexpr float kTextNormEps = 1e-6f;       // fixed in the reference: spec section 3.1
constexpr float kImagePosition = 65536.0f;  // where the positions of image tokens start on every axis

}  // namespace

TensorView SessionState::modulation_row(int layer, int step) const {
  const std::int64_t columns = 4 * final_scale.shape()[1];
  const TensorView all = modulation;
  float* row = current.as<void>() != nullptr ? current.as<float>() : all.row<float>(step);
  return {row + layer * columns, DType::f32, {columns}, all.device};
}

TensorView SessionState::final_scale_row(int step) const {
  const TensorView all = final_scale;
  float* row = current.as<void>() != nullptr ? current.as<float>() + modulation.shape()[1] : all.row<float>(step);
  return {row, DType::f32, {all.columns()}, all.device};
}

void SessionState::select_step(ExecContext& ctx, int step) const {
  if (ctx.device.is_cpu()) return;
  const TensorView rows = modulation, final_rows = final_scale;
  float* to = current.as<float>();
  copy_bytes(to, ctx.device, rows.row<float>(step), ctx.device, std::size_t(rows.columns()) * sizeof(float), ctx.stream);
  copy_bytes(to + rows.columns(), ctx.device, final_rows.row<float>(step), ctx.device, std::size_t(final_rows.columns()) * sizeof(float), ctx.stream);
}

nn::LoraLinear SessionState::with_lora(const nn::Linear& linear, std::string_view projection) const {
  if (lora == nullptr) return {linear, {}};
  const auto found = lora->find(projection);
  return {linear, found == lora->end() ? std::span<const LoraTerm>() : found->second};
}

nn::LoraLinear SessionState::with_lora(const nn::Linear& linear, int layer, std::string_view projection) const {
  if (lora == nullptr) return {linear, {}};
  return with_lora(linear, fmt::format("layers.{}.{}", layer, projection));
}

std::vector<int> rope_axes(std::span<const int> mrope_section, int head_dim) {
  std::vector<int> axes(std::size_t(head_dim / 2), 0);
  for (int k = 0; k < head_dim / 2; ++k) {
    const int axis = k % 3;
    if (axis != 0 && k < 3 * mrope_section[std::size_t(axis)]) axes[std::size_t(k)] = axis;
  }
  return axes;
}

Tensor packed_positions(std::int64_t text_rows, Grid grid) {
  Tensor positions(DType::f32, {text_rows + std::int64_t(grid.height) * grid.width, 3}, {}, "positions");
  float* p = positions.as<float>();
  for (std::int64_t i = 0; i < text_rows; ++i) {
    for (int axis = 0; axis < 3; ++axis) *p++ = float(i);
  }
  for (int y = 0; y < grid.height; ++y) {
    for (int x = 0; x < grid.width; ++x) {
      *p++ = kImagePosition;
      *p++ = kImagePosition + float(y);
      *p++ = kImagePosition + float(x);
    }
  }
  return positions;
}

Conditioning::Conditioning(ExecContext& ctx, const WeightStore& store, const Config& config, const Names& names, bool has_text, const nn::LinearUse& use)
    : store_(store), config_(config), has_text_(has_text) {
  const auto linear = [&](const std::string& module) { return nn::Linear(ctx, store, {{module}}, true, use); };
  if (has_text) {
    text_norm_ = nn::place(ctx, store.get(names("llm_cond_norm.weight")), owned_, "norm of text features");
    text_proj_ = linear(names("llm_cond_proj"));
    text_proj_.add_to_bias(ctx, store.get(names("embed_image_indicator.weight")).row_range(0, 1).reshaped({config.hidden()}));
  }
  time_in_ = linear(names("t_embedding.mlp_in"));
  time_out_ = linear(names("t_embedding.mlp_out"));
  adaln_proj_ = linear(names("adaln_proj"));
  for (int l = 0; l < config.layers; ++l) block_modulation_.push_back(linear(names.layer(l, "adaln_modulation")));
  final_modulation_ = linear(names("final_layer.adaln_modulation"));
}

// text = llm_cond_proj( rms_norm(features) ), panels of rows.
void Conditioning::project_text(ExecContext& ctx, const TensorView& features, const SessionState& state) const {
  const TensorView text = state.text;
  const nn::LoraLinear text_proj = state.with_lora(text_proj_, "llm_cond_proj");
  for (std::int64_t first = 0; first < features.rows(); first += kTextRowsPerPanel) {
    models::stop_if_cancelled(ctx, store_.component());
    const ArenaScope scope(*ctx.scratch);
    const std::int64_t count = std::min(kTextRowsPerPanel, features.rows() - first);
    const TensorView normed = nn::scratch_tensor(ctx, DType::f32, {count, features.columns()}, "text features");
    rms_norm(ctx, features.row_range(first, count), {.weight = text_norm_, .eps = kTextNormEps, .mod_scale = {}}, normed);
    text_proj.forward(ctx, normed, {}, text.row_range(first, count));
  }
}

// All steps at once: the rows of one small matrix product instead of a matrix-vector product per step.
//   c = mlp_out(silu(mlp_in(sinusoid(t)))),  a = silu(adaln_proj(c)),  modulation = W_m a + b_m,  final = W_fm silu(a) + b_fm
void Conditioning::modulate(ExecContext& ctx, std::span<const float> times, SessionState& state) const {
  const ArenaScope scope(*ctx.scratch);
  const std::int64_t steps = std::int64_t(times.size());
  const std::int64_t hidden = config_.hidden();
  const TensorView sinusoid = nn::scratch_tensor(ctx, DType::f32, {steps, hidden}, "time embedding");
  const TensorView inner = nn::scratch_tensor(ctx, DType::f32, {steps, hidden}, "time embedding");
  const TensorView adaln = nn::scratch_tensor(ctx, DType::f32, {steps, config_.adaln}, "time embedding");
  const Tensor on_host(DType::f32, {steps, hidden}, {}, "time embedding");
  for (std::int64_t j = 0; j < steps; ++j) time_sinusoid(times[std::size_t(j)], TensorView(on_host.view().row<float>(j), DType::f32, {hidden}));
  copy_bytes(sinusoid.data, sinusoid.device, on_host.as<void>(), Device{}, on_host.bytes(), ctx.stream);
  const Epilogue with_silu{.activation = Activation::silu, .mod_gate = {}, .residual = {}};
  state.with_lora(time_in_, "t_embedding.mlp_in").forward(ctx, sinusoid, with_silu, inner);
  state.with_lora(time_out_, "t_embedding.mlp_out").forward(ctx, inner, {}, sinusoid);
  state.with_lora(adaln_proj_, "adaln_proj").forward(ctx, sinusoid, with_silu, adaln);

  state.modulation = Tensor(DType::f32, {steps, config_.layers * 4 * hidden}, ctx.device, "modulation of all steps");
  for (int l = 0; l < config_.layers; ++l) {
    const TensorView rows = state.modulation.view().column_range(l * 4 * hidden, 4 * hidden);
    state.with_lora(block_modulation_[std::size_t(l)], l, "adaln_modulation").forward(ctx, adaln, {}, rows);
  }
  silu(ctx, adaln);  // a second time, for the output layer only: spec section 3.2
  state.final_scale = Tensor(DType::f32, {steps, hidden}, ctx.device, "modulation of all steps");
  state.with_lora(final_modulation_, "final_layer.adaln_modulation").forward(ctx, adaln, {}, state.final_scale);
  if (!ctx.device.is_cpu()) state.current = Tensor(DType::f32, {(config_.layers * 4 + 1) * hidden}, ctx.device, "modulation of a step");
}

std::unique_ptr<Session> Conditioning::prepare(ExecContext& ctx, const Precision& precision, Grid grid, const std::optional<TensorView>& features,
                                               std::span<const float> times, const LoraTerms* lora) const {
  const std::string& who = store_.component();
  if (grid.height < 1 || grid.width < 1) throw InvalidArgument(fmt::format("{}: a grid of {} x {} image tokens is empty", who, grid.height, grid.width));
  if (times.empty()) throw InvalidArgument(fmt::format("{}: no model times were given; at least one step is needed", who));
  if (features && !has_text_) throw InvalidArgument(fmt::format("{}: takes no text features; it was loaded without llm_cond_proj", who));
  if (features && (features->shape.rank() != 2 || features->columns() != config_.llm_features || features->dtype != DType::f32)) {
    throw InvalidArgument(
        fmt::format("{}: text features are {} {}, but llm_features_dim asks for f32 [T, {}]; the text encoder or its taps are of another model", who,
                    name_of(features->dtype), features->shape.text(), config_.llm_features));
  }
  auto state = std::make_unique<SessionState>();
  state->owner = &config_;
  state->lora = lora;
  if (lora != nullptr && !ctx.device.is_cpu()) {
    state->placed_loras = nn::place_loras(ctx, *lora, precision.rows);
    state->lora = &state->placed_loras.terms;
  }
  state->text_rows = features ? features->rows() : 0;
  state->image_rows = std::int64_t(grid.height) * grid.width;
  state->steps = int(times.size());
  if (state->text_rows > 0) {
    state->text = Tensor(precision.residual, {state->text_rows, config_.hidden()}, ctx.device, "text rows");
    std::vector<Tensor> moved;
    project_text(ctx, nn::place(ctx, *features, moved, "text features"), *state);
  }
  const Tensor positions = packed_positions(state->text_rows, grid);
  const Shape half{state->rows(), config_.head_dim / 2};
  state->cos = Tensor(DType::f32, half, {}, "RoPE table");
  state->sin = Tensor(DType::f32, half, {}, "RoPE table");
  rope_table(positions, rope_axes(config_.mrope_section, config_.head_dim), config_.rope_theta, config_.head_dim, state->cos, state->sin);
  if (!ctx.device.is_cpu()) {
    state->cos = nn::to_device(ctx, state->cos, "RoPE table");
    state->sin = nn::to_device(ctx, state->sin, "RoPE table");
  }

  std::vector<float> model_times(times.begin(), times.end());
  if (precision.residual == DType::bf16) {
    for (float& t : model_times) t = to_float(to_bf16(t));
  }
  modulate(ctx, model_times, *state);
  // 7 % of the parameters; the steps do not read them, so their pages need not stay in memory meanwhile.
  for (const nn::Linear* linear : linears()) {
    for (const LinearWeights& part : linear->parts()) store_.release(part.name + ".weight");
  }
  return state;
}

std::vector<const nn::Linear*> Conditioning::linears() const {
  std::vector<const nn::Linear*> list{&time_in_, &time_out_, &adaln_proj_, &final_modulation_};
  if (has_text_) list.push_back(&text_proj_);
  for (const nn::Linear& linear : block_modulation_) list.push_back(&linear);
  return list;
}

std::int64_t Conditioning::owned_bytes() const {
  std::int64_t sum = 0;
  for (const nn::Linear* linear : linears()) sum += linear->owned_bytes();
  return sum;
}

std::int64_t Conditioning::mapped_bytes() const {
  std::int64_t sum = has_text_ ? std::int64_t(text_norm_.bytes()) : 0;
  for (const nn::Linear* linear : linears()) sum += linear->mapped_bytes();
  return sum;
}

}  // namespace octavo::ideogram4
