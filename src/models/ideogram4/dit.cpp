#include "models/ideogram4/dit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/checkpoint.h"
#include "models/ideogram4/conditioning.h"
#include "models/ideogram4/footprint.h"
#include "models/ideogram4/params.h"
#include "nn/block_stream.h"
#include "nn/linear.h"
#include "nn/lora.h"
#include "nn/placement.h"
#include "nn/rows.h"
#include "octavo/error.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_int8.h"
#include "ops/gated_act/gated_act.h"
#include "ops/norm_modulate/norm_modulate.h"
#include "ops/rope/rope.h"

namespace octavo::ideogram4 {
namespace {

constexpr float kHeadNormEps = 1e-5f;  // fixed in the reference, not in config.json: spec section 3.1
constexpr float kFinalNormEps = 1e-6f;

struct DitBlock {
  int index = 0;
  int streamed_as = -1;  // the number of its projections in the block stream; -1: they stay on the device
  nn::Linear qkv{}, attention_output{}, w13{}, w2{};
  TensorView norm_q{}, norm_k{};
  TensorView attention_norm1{}, attention_norm2{}, mlp_norm1{}, mlp_norm2{};
};

// One row of modulation [4D], by use. Chunk order as in the checkpoint: spec section 3.2.
struct Modulation {
  TensorView attention_scale{}, attention_gate{}, mlp_scale{}, mlp_gate{};

  Modulation(const TensorView& row, std::int64_t hidden) {
    const auto chunk = [&](std::int64_t index) { return TensorView(row.as<float>() + index * hidden, DType::f32, {hidden}, row.device); };
    attention_scale = chunk(0);
    attention_gate = chunk(1);
    mlp_scale = chunk(2);
    mlp_gate = chunk(3);
  }
};

nn::LoraLinear qkv_of(const SessionState& session, const DitBlock& block) { return session.with_lora(block.qkv, block.index, "attention.qkv"); }
nn::LoraLinear w13_of(const SessionState& session, const DitBlock& block) { return session.with_lora(block.w13, block.index, "feed_forward.w13"); }

// The rows between a norm and the projection behind it. Layers of one file may differ in what they read, so both forms share the place of one
// only if all layers agree; rows() gives the form that a projection asks for.
class BlockInput {
 public:
  BlockInput(ExecContext& ctx, const std::vector<DitBlock>& blocks, const SessionState& session, DType floats, std::int64_t columns) {
    for (const DitBlock& block : blocks) {
      for (const nn::RowFormat format : {qkv_of(session, block).input(), w13_of(session, block).input()}) {
        std::optional<RowOutput>& place = format.is_quantized ? codes_ : floats_;
        if (!place) place = nn::scratch_rows(ctx, nn::RowFormat{.is_quantized = format.is_quantized}, floats, session.rows(), columns, "block input");
      }
    }
  }
  RowOutput rows(const nn::LoraLinear& reader, std::int64_t first, std::int64_t count) const {
    const nn::RowFormat format = reader.input();
    if (!format.is_quantized) return nn::row_range(*floats_, first, count);
    auto view = std::get<QuantizedView>(nn::row_range(*codes_, first, count));
    view.rotation_group = format.rotation_group;
    return view;
  }

 private:
  std::optional<RowOutput> floats_{}, codes_{};
};

}  // namespace

struct Dit::Impl {
  Precision precision;
  Config config;
  WeightStore store;
  std::string component;
  DitResidency residency;
  bool has_text = false;
  Names names{};
  nn::Linear input_proj{};  // with the image row of embed_image_indicator in its bias
  nn::Linear output{};
  std::vector<DitBlock> blocks{};
  std::unique_ptr<Conditioning> conditioning{};
  std::int64_t norm_bytes = 0;
  std::vector<Tensor> owned{};  // norms, if they are not read from the map

  Impl(ExecContext& ctx, const std::filesystem::path& folder, std::string name, const Precision& how, const DitResidency& where)
      : precision(how),
        config(Config::read(folder)),
        store(folder, name, models::find_overlay(folder.parent_path(), name.starts_with("unconditional") ? "unconditional." : "conditional.")),
        component(std::move(name)),
        residency(where),
        has_text(!component.starts_with("unconditional")) {
    load(ctx);
  }

  void load(ExecContext& ctx);
  void load_block(ExecContext& ctx, int index);
  // Of layers outside the blocks: a plain layer stays as stored in every precision; int8 in the file runs as int8 in w8a8.
  nn::LinearUse outside_blocks() const { return {NumberFormat{}, precision.activation.is_quantized(), precision.dequantizes()}; }
  std::unique_ptr<Conditioning> make_conditioning(ExecContext& ctx) const {
    return std::make_unique<Conditioning>(ctx, store, config, names, has_text, outside_blocks());
  }
  void acquire(ExecContext& ctx, const DitBlock& block) const {
    if (block.streamed_as >= 0) residency.stream->acquire(ctx, block.streamed_as);
  }
  void release(ExecContext& ctx, const DitBlock& block) const {
    if (block.streamed_as >= 0) residency.stream->release(ctx, block.streamed_as);
  }
  NormArgs norm(const TensorView& weight, const std::optional<TensorView>& mod_scale) const {
    return {.weight = weight, .eps = config.norm_eps, .mod_scale = mod_scale};
  }
  void attend(ExecContext& ctx, const DitBlock& block, const SessionState& session, const RowOutput& x, std::int64_t first, const TensorView& y) const;
  void mlp(ExecContext& ctx, const DitBlock& block, const SessionState& session, const RowOutput& x, std::int64_t rows, const TensorView& y) const;
  void forward(ExecContext& ctx, const SessionState& state, int step, const TensorView& latents, const TensorView& velocity) const;
};

void Dit::Impl::load(ExecContext& ctx) {
  names = Names::find(store);
  const std::string text_prefix = names("llm_cond_");
  const std::vector<std::string_view> unread = has_text ? std::vector<std::string_view>{} : std::vector<std::string_view>{text_prefix};
  models::check_parameters(ctx, store, parameters(config, names, has_text), unread);

  const TensorView indicator = store.get(names("embed_image_indicator.weight"));
  input_proj = nn::Linear(ctx, store, {{names("input_proj")}}, true, outside_blocks());
  input_proj.add_to_bias(ctx, indicator.row_range(1, 1).reshaped({config.hidden()}));
  output = nn::Linear(ctx, store, {{names("final_layer.linear")}}, true, outside_blocks());
  for (int l = 0; l < config.layers; ++l) {
    models::stop_if_cancelled(ctx, component);
    load_block(ctx, l);
  }
  if (residency.keeps_conditioning) conditioning = make_conditioning(ctx);
}

void Dit::Impl::load_block(ExecContext& ctx, int index) {
  const auto linear = [&](const std::vector<nn::LinearPart>& parts) { return nn::Linear(ctx, store, parts, false, nn::LinearUse(precision)); };
  const auto vector = [&](std::string_view name) {
    const TensorView view = store.get(names.layer(index, name));
    norm_bytes += std::int64_t(view.bytes());
    return nn::place(ctx, view, owned, name);
  };
  DitBlock block{.index = index};
  block.qkv = linear(names.qkv(config, index));
  block.attention_output = linear({{names.attention_output(index)}});
  nn::LinearUse in_pairs(precision);
  in_pairs.pairs_rows = true;
  block.w13 = nn::Linear(ctx, store, {{names.layer(index, "feed_forward.w1")}, {names.layer(index, "feed_forward.w3")}}, false, in_pairs);
  block.w2 = linear({{names.layer(index, "feed_forward.w2")}});
  block.norm_q = vector("attention.norm_q.weight");
  block.norm_k = vector("attention.norm_k.weight");
  block.attention_norm1 = vector("attention_norm1.weight");
  block.attention_norm2 = vector("attention_norm2.weight");
  block.mlp_norm1 = vector("ffn_norm1.weight");
  block.mlp_norm2 = vector("ffn_norm2.weight");
  if (residency.stream != nullptr && nn::is_streamed_layer(index, config.layers, residency.streamed_layers)) {
    nn::Linear* const streamed[] = {&block.qkv, &block.attention_output, &block.w13, &block.w2};
    block.streamed_as = residency.stream->add(ctx, streamed);
  }
  blocks.push_back(std::move(block));
}

// y = o_proj(attention(x)) for the query rows [first, S); keys and values come from all rows.
void Dit::Impl::attend(ExecContext& ctx, const DitBlock& block, const SessionState& session, const RowOutput& x, std::int64_t first,
                       const TensorView& y) const {
  const ArenaScope scope(*ctx.scratch);
  const std::int64_t hidden = config.hidden();
  const std::int64_t rows = session.rows();
  const TensorView qkv = nn::scratch_tensor(ctx, precision.rows, {rows, 3 * hidden}, "attention projections");
  qkv_of(session, block).forward(ctx, x, {}, qkv);
  const TensorView q = qkv.row_range(first, rows - first).column_range(0, hidden);
  const TensorView k = qkv.column_range(hidden, hidden);
  const TensorView v = qkv.column_range(2 * hidden, hidden);
  const TensorView cos = session.cos;
  const TensorView sin = session.sin;
  head_norm_rope(ctx, q, config.heads, block.norm_q, kHeadNormEps, cos.row_range(first, rows - first), sin.row_range(first, rows - first));
  head_norm_rope(ctx, k, config.heads, block.norm_k, kHeadNormEps, cos, sin);
  const TensorView mixed = nn::scratch_tensor(ctx, precision.rows, {rows - first, hidden}, "attention output");
  const AttentionArgs args{.heads = config.heads, .kv_heads = config.heads, .softmax_scale = 1.0f / std::sqrt(float(config.head_dim))};
  ctx.attention == AttentionKind::int8 ? attention_int8(ctx, q, k, v, args, mixed) : attention(ctx, q, k, v, args, mixed);
  session.with_lora(block.attention_output, block.index, "attention.o").forward(ctx, mixed, {}, y);
}

// y = w2( silu(w1 x) · w3 x ), a panel of rows at a time; a row depends on no other, so the panels do not show.
void Dit::Impl::mlp(ExecContext& ctx, const DitBlock& block, const SessionState& session, const RowOutput& x, std::int64_t rows, const TensorView& y) const {
  const ArenaScope scope(*ctx.scratch);
  const nn::LoraLinear w13 = w13_of(session, block), w2 = session.with_lora(block.w2, block.index, "feed_forward.w2");
  const std::int64_t width = config.intermediate;
  if (block.w13.has_pairs() && !w13.has_terms()) {  // the product of the halves leaves the projection's epilogue, and w2 quantises its rows itself
    const TensorView product = nn::scratch_tensor(ctx, precision.residual, {rows, width}, "MLP hidden rows");
    w13.forward(ctx, x, {.activation = Activation::silu_mul, .mod_gate = {}, .residual = {}}, product);
    return w2.forward(ctx, product, {}, y);
  }
  const std::int64_t panel = mlp_panel_rows(ctx.device, rows);
  const TensorView w13_out = nn::scratch_tensor(ctx, precision.rows, {panel, 2 * width}, "MLP projections");
  const RowOutput hidden = nn::scratch_rows(ctx, w2.input(), precision.residual, panel, width, "MLP hidden rows");
  for (std::int64_t first = 0; first < rows; first += panel) {
    const std::int64_t count = std::min(panel, rows - first);
    const TensorView both = w13_out.row_range(0, count);
    const RowOutput product = nn::row_range(hidden, 0, count);
    w13.forward(ctx, nn::row_range(x, first, count), {}, both);
    silu_mul(ctx, both.column_range(0, width), both.column_range(width, width), product);
    w2.forward(ctx, product, {}, y.row_range(first, count));
  }
}

Dit::Dit(ExecContext& ctx, const std::filesystem::path& folder, std::string component, const Precision& precision, const DitResidency& residency)
    : impl_(std::make_unique<Impl>(ctx, folder, std::move(component), precision, residency)) {}
Dit::~Dit() = default;
Dit::Dit(Dit&&) noexcept = default;

const Config& Dit::config() const { return impl_->config; }

std::unique_ptr<Session> Dit::prepare(ExecContext& ctx, int grid_h, int grid_w, const std::optional<TensorView>& features, std::span<const float> times,
                                      const LoraTerms* lora) const {
  const Impl& m = *impl_;
  if (m.conditioning) return m.conditioning->prepare(ctx, m.precision, {grid_h, grid_w}, features, times, lora);
  const std::unique_ptr<Conditioning> for_now = m.make_conditioning(ctx);
  std::unique_ptr<Session> session = for_now->prepare(ctx, m.precision, {grid_h, grid_w}, features, times, lora);
  if (ctx.stream != nullptr) ctx.stream->synchronize();  // before its weights leave
  return session;
}

void Dit::forward(ExecContext& ctx, const Session& session, int step, const TensorView& latents, const TensorView& velocity) const {
  const Impl& m = *impl_;
  const auto& state = dynamic_cast<const SessionState&>(session);
  if (state.owner != &m.config) throw InternalError(fmt::format("{}: the session was prepared by another denoiser", m.component));
  if (step < 0 || step >= state.steps) throw InvalidArgument(fmt::format("{}: step {} was not prepared; there are {} steps", m.component, step, state.steps));
  const Shape expected{state.image_rows, m.config.in_channels};
  for (const TensorView& view : {latents, velocity}) {
    if (view.shape != expected || view.dtype != DType::f32) {
      throw InvalidArgument(fmt::format("{}: latents and velocity must be f32 {} for this picture size, not {} {}", m.component, expected.text(),
                                        name_of(view.dtype), view.shape.text()));
    }
  }

  state.select_step(ctx, step);
  // A clock sees ops as they come. Streamed layers are not recorded: their copies run ahead of a pass, on a stream of their own, and take longer than a CPU
  // needs to enqueue it.
  if (ctx.device.is_cpu() || ctx.timer != nullptr || m.residency.stream != nullptr) return m.forward(ctx, state, step, latents, velocity);
  // A GPU runs a pass once as it comes, which allocates its scratch, then records the same pass and launches the record from then on.
  const Arena::Mark mark = ctx.scratch->mark();
  const auto now = [&] {
    const ArenaScope scope(*ctx.scratch);
    const void* start = ctx.scratch->take(1, "the start of the scratch");  // an arena that was emptied meanwhile may have its memory elsewhere
    return SessionState::Recording{latents.data, velocity.data, start, ctx.scratch, mark.used, mark.block, ctx.scratch->peak_bytes()};
  };
  if (state.ran != now()) {
    state.graph.clear();
    m.forward(ctx, state, step, latents, velocity);
    state.ran = now();
    return;
  }
  if (!state.graph.is_recorded()) state.graph.record(*ctx.stream, [&] { m.forward(ctx, state, step, latents, velocity); });
  state.graph.launch(*ctx.stream);
}

void Dit::Impl::forward(ExecContext& ctx, const SessionState& state, int step, const TensorView& latents, const TensorView& velocity) const {
  const Impl& m = *this;
  const ArenaScope scope(*ctx.scratch);
  const std::int64_t hidden = m.config.hidden();
  const std::int64_t text_rows = state.text_rows;
  const TensorView h = nn::scratch_tensor(ctx, m.precision.residual, {state.rows(), hidden}, "residual stream");
  const TensorView y = nn::scratch_tensor(ctx, m.precision.residual, {state.rows(), hidden}, "block output");
  const BlockInput x(ctx, m.blocks, state, m.precision.rows, hidden);

  if (text_rows > 0) copy_bytes(h.data, h.device, state.text.as<void>(), state.text.view().device, state.text.bytes(), ctx.stream);
  state.with_lora(m.input_proj, "input_proj").forward(ctx, latents, {}, h.row_range(text_rows, state.image_rows));
  const auto modulation = [&](int layer) { return Modulation(state.modulation_row(layer, step), hidden); };
  rms_norm(ctx, h, m.norm(m.blocks[0].attention_norm1, modulation(0).attention_scale), x.rows(qkv_of(state, m.blocks[0]), 0, state.rows()));
  for (int l = 0; l < m.config.layers; ++l) {
    models::stop_if_cancelled(ctx, m.component);
    const DitBlock& block = m.blocks[std::size_t(l)];
    const Modulation mod = modulation(l);
    const bool is_last = l + 1 == m.config.layers;
    // Behind the last attention nobody reads the text rows any more.
    const std::int64_t first = is_last ? text_rows : 0;
    const std::int64_t rows = state.rows() - first;
    const TensorView live_h = h.row_range(first, rows);
    const TensorView live_y = y.row_range(0, rows);

    m.acquire(ctx, block);
    m.attend(ctx, block, state, x.rows(qkv_of(state, block), 0, state.rows()), first, live_y);
    const RowOutput mlp_x = x.rows(w13_of(state, block), 0, rows);
    gated_residual_norm(ctx, live_h, live_y, mod.attention_gate, m.norm(block.attention_norm2, {}), m.norm(block.mlp_norm1, mod.mlp_scale), mlp_x);
    m.mlp(ctx, block, state, mlp_x, rows, live_y);
    m.release(ctx, block);
    if (is_last) {
      gated_residual_norm(ctx, live_h, live_y, mod.mlp_gate, m.norm(block.mlp_norm2, {}), {}, std::nullopt);
    } else {
      const DitBlock& next_block = m.blocks[std::size_t(l + 1)];
      const NormArgs next = m.norm(next_block.attention_norm1, modulation(l + 1).attention_scale);
      gated_residual_norm(ctx, live_h, live_y, mod.mlp_gate, m.norm(block.mlp_norm2, {}), next, x.rows(qkv_of(state, next_block), 0, rows));
    }
  }
  // Float32 to the end: guidance multiplies the error of this result by up to nine. spec section 3.6
  const TensorView normed = nn::scratch_tensor(ctx, DType::f32, {state.image_rows, hidden}, "output rows");
  layer_norm(ctx, h.row_range(text_rows, state.image_rows), kFinalNormEps, state.final_scale_row(step), normed);
  state.with_lora(m.output, "final_layer.linear").forward(ctx, normed, {}, velocity);
}

std::int64_t Dit::owned_bytes() const {
  std::int64_t sum = impl_->input_proj.owned_bytes() + (impl_->conditioning ? impl_->conditioning->owned_bytes() : 0);
  for (const DitBlock& block : impl_->blocks) {
    for (const nn::Linear* linear : {&block.qkv, &block.attention_output, &block.w13, &block.w2}) sum += linear->owned_bytes();
  }
  return sum;
}

std::int64_t Dit::mapped_bytes() const {
  std::int64_t sum = impl_->input_proj.mapped_bytes() + impl_->output.mapped_bytes() + impl_->norm_bytes;
  if (impl_->conditioning) sum += impl_->conditioning->mapped_bytes();
  for (const DitBlock& block : impl_->blocks) {
    for (const nn::Linear* linear : {&block.qkv, &block.attention_output, &block.w13, &block.w2}) sum += linear->mapped_bytes();
  }
  return sum;
}

}  // namespace octavo::ideogram4
