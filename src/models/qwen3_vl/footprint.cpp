#include "models/qwen3_vl/footprint.h"

#include "models/qwen3_vl/params.h"
#include "octavo/error.h"
#include "weights/weight_store.h"

namespace octavo::qwen3_vl {

TextFootprint::TextFootprint(const std::filesystem::path& folder, const std::vector<int>& taps, const Precision& precision)
    : config_(Config::read(folder)), rows_(precision.rows), residual_(precision.residual) {
  if (taps.empty() || taps.back() >= config_.layers) throw InvalidArgument("text_encoder: its taps are not within its layers");
  const WeightStore store(folder, "text_encoder");
  const std::string prefix = find_prefix(store);
  const NumberFormat format = weight_format(precision);
  for (int l = 0; l <= taps.back(); ++l) {
    nn::Footprint sum;
    const auto name = [&](std::string_view module) { return layer_name(prefix, l, module); };
    const auto linear = [&](const std::vector<nn::LinearPart>& parts) {
      const nn::LinearPlan plan = nn::plan_linear(store, parts, false, format);
      sum += plan.memory;
      return plan;
    };
    Layer layer;
    layer.qkv = linear({{name("self_attn.q_proj")}, {name("self_attn.k_proj")}, {name("self_attn.v_proj")}});
    layer.attention_output = linear({{name("self_attn.o_proj")}});
    layer.gate_up = linear({{name("mlp.gate_proj")}, {name("mlp.up_proj")}});
    layer.down = linear({{name("mlp.down_proj")}});
    for (const std::string_view norm : {"input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm"}) {
      sum.add_tensor(std::int64_t(store.get(name(norm) + ".weight").bytes()));
    }
    layers_.push_back(std::move(layer));
    layer_bytes_.push_back(sum);
  }
}

nn::Footprint TextFootprint::placed_tables(std::int64_t tokens) const {
  nn::Footprint sum;
  for (int i = 0; i < 2; ++i) sum.add_tensor(DType::f32, {tokens, config_.head_dim / 2});
  return sum;
}

std::int64_t TextFootprint::scratch_bytes(Device device, std::int64_t tokens) const {
  const std::int64_t q_columns = std::int64_t(config_.heads) * config_.head_dim, kv_columns = std::int64_t(config_.kv_heads) * config_.head_dim;
  const std::int64_t width = config_.intermediate;
  nn::ScratchCount scratch;
  for (const DType dtype : {residual_, rows_, residual_}) scratch.take(dtype, {tokens, config_.hidden});  // residual stream, layer input, layer output
  const std::int64_t mark = scratch.mark();
  for (const Layer& layer : layers_) {
    scratch.take(rows_, {tokens, q_columns + 2 * kv_columns});
    scratch.take(rows_, {tokens, q_columns});
    layer.qkv.take_scratch(scratch, device, tokens, rows_);
    layer.attention_output.take_scratch(scratch, device, tokens, rows_);
    scratch.rewind(mark);
    scratch.take(rows_, {tokens, 2 * width});
    layer.gate_up.take_scratch(scratch, device, tokens, rows_);
    scratch.take(residual_, {tokens, width});
    layer.down.take_scratch(scratch, device, tokens, residual_);
    scratch.rewind(mark);
  }
  return scratch.most();
}

}  // namespace octavo::qwen3_vl
