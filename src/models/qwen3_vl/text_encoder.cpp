#include "models/qwen3_vl/text_encoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/checkpoint.h"
#include "models/qwen3_vl/params.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/placement.h"
#include "nn/rows.h"
#include "octavo/error.h"
#include "ops/attention/attention.h"
#include "ops/gated_act/gated_act.h"
#include "ops/norm_modulate/norm_modulate.h"
#include "ops/rope/rope.h"

namespace octavo::qwen3_vl {
namespace {

struct DecoderLayer {
  nn::Linear qkv{}, attention_output{}, gate_up{}, down{};
  TensorView input_norm{}, post_attention_norm{}, q_norm{}, k_norm{};
  std::vector<Tensor> owned{};  // norms, if they are not read from the map
};

}  // namespace

struct TextEncoder::Impl {
  Config config;
  WeightStore store;
  std::vector<int> taps;
  DType rows_dtype, residual_dtype;
  NumberFormat format;
  TextResidency residency;
  std::string prefix{};
  nn::Embedding embedding{};
  std::vector<DecoderLayer> layers{};  // up to the last tap; empty if they are loaded one by one

  Impl(const std::filesystem::path& folder, std::vector<int> kept, const Precision& precision, TextResidency where)
      : config(Config::read(folder)),
        store(folder, "text_encoder"),
        taps(std::move(kept)),
        rows_dtype(precision.rows),
        residual_dtype(precision.residual),
        format(weight_format(precision)),
        residency(where) {}

  void load(ExecContext& ctx);
  DecoderLayer load_layer(ExecContext& ctx, int index) const;
  void run_layer(ExecContext& ctx, const DecoderLayer& layer, const TensorView& h, const TensorView& cos, const TensorView& sin) const;
  void attend(ExecContext& ctx, const DecoderLayer& layer, const TensorView& x, const TensorView& cos, const TensorView& sin, const TensorView& y) const;
};

void TextEncoder::Impl::load(ExecContext& ctx) {
  const bool ascends = std::adjacent_find(taps.begin(), taps.end(), std::greater_equal<>()) == taps.end();
  if (taps.empty() || taps.front() < 0 || taps.back() >= config.layers || !ascends) {
    throw InvalidArgument(
        fmt::format("text_encoder: taps [{}] must ascend within the {} layers, 0 to {}", fmt::join(taps, ", "), config.layers, config.layers - 1));
  }
  prefix = find_prefix(store);
  const int used_layers = taps.back() + 1;
  // The final norm, the vision tower and a language head are in every file and used by none of the taps.
  const std::string final_norm = prefix + "norm.";
  const std::string layer_prefix = prefix + "layers.";
  std::vector<std::string_view> unread{"visual.", "model.visual.", "lm_head.", final_norm};
  if (used_layers < config.layers) unread.push_back(layer_prefix);
  models::check_parameters(ctx, store, parameters(config, prefix, used_layers), unread);

  embedding = nn::Embedding(store, prefix + "embed_tokens");
  for (int l = 0; l < used_layers && residency == TextResidency::whole; ++l) {
    models::stop_if_cancelled(ctx, store.component());
    layers.push_back(load_layer(ctx, l));
  }
}

DecoderLayer TextEncoder::Impl::load_layer(ExecContext& ctx, int index) const {
  DecoderLayer layer;
  const auto name = [&](std::string_view module) { return layer_name(prefix, index, module); };
  const auto linear = [&](const std::vector<nn::LinearPart>& parts) { return nn::Linear(ctx, store, parts, false, format); };
  const auto norm = [&](std::string_view module) { return nn::place(ctx, store.get(name(module) + ".weight"), layer.owned, module); };
  layer.qkv = linear({{name("self_attn.q_proj")}, {name("self_attn.k_proj")}, {name("self_attn.v_proj")}});
  layer.attention_output = linear({{name("self_attn.o_proj")}});
  layer.gate_up = linear({{name("mlp.gate_proj")}, {name("mlp.up_proj")}});
  layer.down = linear({{name("mlp.down_proj")}});
  layer.input_norm = norm("input_layernorm");
  layer.post_attention_norm = norm("post_attention_layernorm");
  layer.q_norm = norm("self_attn.q_norm");
  layer.k_norm = norm("self_attn.k_norm");
  return layer;
}

// y = o_proj( causal attention of x )
void TextEncoder::Impl::attend(ExecContext& ctx, const DecoderLayer& layer, const TensorView& x, const TensorView& cos, const TensorView& sin,
                               const TensorView& y) const {
  const ArenaScope scope(*ctx.scratch);
  const std::int64_t q_columns = std::int64_t(config.heads) * config.head_dim;
  const std::int64_t kv_columns = std::int64_t(config.kv_heads) * config.head_dim;
  const TensorView qkv = nn::scratch_tensor(ctx, rows_dtype, {x.rows(), q_columns + 2 * kv_columns}, "attention projections");
  const TensorView q = qkv.column_range(0, q_columns);
  const TensorView k = qkv.column_range(q_columns, kv_columns);
  const TensorView v = qkv.column_range(q_columns + kv_columns, kv_columns);
  const TensorView mixed = nn::scratch_tensor(ctx, rows_dtype, {x.rows(), q_columns}, "attention output");
  layer.qkv.forward(ctx, x, {}, qkv);
  head_norm_rope(ctx, q, config.heads, layer.q_norm, config.norm_eps, cos, sin);
  head_norm_rope(ctx, k, config.kv_heads, layer.k_norm, config.norm_eps, cos, sin);
  attention(ctx, q, k, v, {.heads = config.heads, .kv_heads = config.kv_heads, .softmax_scale = 1.0f / std::sqrt(float(config.head_dim)), .causal = true},
            mixed);
  layer.attention_output.forward(ctx, mixed, {}, y);
}

//   h += o_proj(attention(input_norm(h))),   h += down( silu(gate x) · up x ), x = post_attention_norm(h)
void TextEncoder::Impl::run_layer(ExecContext& ctx, const DecoderLayer& layer, const TensorView& h, const TensorView& cos, const TensorView& sin) const {
  const ArenaScope scope(*ctx.scratch);
  const std::int64_t width = config.intermediate;
  const TensorView x = nn::scratch_tensor(ctx, rows_dtype, h.shape, "layer input");
  const TensorView y = nn::scratch_tensor(ctx, residual_dtype, h.shape, "layer output");
  rms_norm(ctx, h, {.weight = layer.input_norm, .eps = config.norm_eps, .mod_scale = {}}, x);
  attend(ctx, layer, x, cos, sin, y);
  add_rows(ctx, h, y);
  rms_norm(ctx, h, {.weight = layer.post_attention_norm, .eps = config.norm_eps, .mod_scale = {}}, x);
  const TensorView both = nn::scratch_tensor(ctx, rows_dtype, {h.rows(), 2 * width}, "MLP projections");
  layer.gate_up.forward(ctx, x, {}, both);
  const TensorView product = nn::scratch_tensor(ctx, residual_dtype, {h.rows(), width}, "MLP hidden rows");
  silu_mul(ctx, both.column_range(0, width), both.column_range(width, width), product);
  layer.down.forward(ctx, product, {}, y);
  add_rows(ctx, h, y);
}

TextEncoder::TextEncoder(ExecContext& ctx, const std::filesystem::path& folder, std::vector<int> taps, const Precision& precision, TextResidency residency)
    : impl_(std::make_unique<Impl>(folder, std::move(taps), precision, residency)) {
  impl_->load(ctx);
}
TextEncoder::~TextEncoder() = default;
TextEncoder::TextEncoder(TextEncoder&&) noexcept = default;

const Config& TextEncoder::config() const { return impl_->config; }

int TextEncoder::feature_columns() const { return impl_->config.hidden * int(impl_->taps.size()); }

Tensor TextEncoder::encode(ExecContext& ctx, std::span<const std::int32_t> ids) const {
  const Impl& m = *impl_;
  if (ids.empty()) throw InvalidArgument("text_encoder: no tokens were given; the chat template alone has some");
  const ArenaScope scope(*ctx.scratch);
  const std::int64_t rows = std::int64_t(ids.size());
  const std::int64_t hidden = m.config.hidden;
  const std::int64_t taps = std::int64_t(m.taps.size());

  // Text alone: the three axes of its multi-axis RoPE carry the same position, so one axis says it all. spec section 6.1
  std::vector<float> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0.0f);
  const std::vector<int> axis_of(std::size_t(m.config.head_dim / 2), 0);
  const Tensor host_cos(DType::f32, {rows, m.config.head_dim / 2}, {}, "RoPE table"), host_sin(DType::f32, host_cos.shape(), {}, "RoPE table");
  rope_table(TensorView(positions.data(), DType::f32, {rows, 1}), axis_of, m.config.rope_theta, m.config.head_dim, host_cos, host_sin);
  std::vector<Tensor> moved;
  const TensorView cos = nn::place(ctx, host_cos, moved, "RoPE table");
  const TensorView sin = nn::place(ctx, host_sin, moved, "RoPE table");

  Tensor features(DType::f32, {rows, hidden * taps}, {}, "text features");
  const TensorView h = nn::scratch_tensor(ctx, m.residual_dtype, {rows, hidden}, "residual stream");
  m.embedding.forward(ctx, ids, h);
  std::int64_t tap = 0;
  for (std::size_t l = 0; l <= std::size_t(m.taps.back()); ++l) {
    models::stop_if_cancelled(ctx, m.store.component());
    if (m.layers.empty()) {
      const DecoderLayer layer = m.load_layer(ctx, int(l));
      m.run_layer(ctx, layer, h, cos, sin);
      if (ctx.stream != nullptr) ctx.stream->synchronize();  // before its weights leave
    } else {
      m.run_layer(ctx, m.layers[l], h, cos, sin);
    }
    if (m.taps[std::size_t(tap)] != int(l)) continue;
    const Tensor from_gpu = ctx.device.is_cpu() ? Tensor() : nn::to_cpu(ctx, h, "text features");
    const TensorView tapped = ctx.device.is_cpu() ? h : from_gpu.view();
    ctx.pool->for_each(rows, [&](std::int64_t row) {
      std::vector<float> values(static_cast<std::size_t>(hidden));
      load_as_float(tapped.row_bytes(row), tapped.dtype, hidden, values.data());
      float* out = features.as<float>() + row * hidden * taps + tap;
      for (std::int64_t unit = 0; unit < hidden; ++unit) out[unit * taps] = values[std::size_t(unit)];
    });
    ++tap;
  }
  return features;
}

std::int64_t TextEncoder::mapped_bytes() const {
  std::int64_t sum = impl_->embedding.mapped_bytes();
  for (const DecoderLayer& layer : impl_->layers) {
    for (const nn::Linear* linear : {&layer.qkv, &layer.attention_output, &layer.gate_up, &layer.down}) sum += linear->mapped_bytes();
    for (const TensorView* norm : {&layer.input_norm, &layer.post_attention_norm, &layer.q_norm, &layer.k_norm}) sum += std::int64_t(norm->bytes());
  }
  return sum;
}

}  // namespace octavo::qwen3_vl
