#include "models/qwen3_vl/params.h"

#include <fmt/format.h>

#include <array>

#include "models/checkpoint.h"

namespace octavo::qwen3_vl {

std::string find_prefix(const WeightStore& store) {
  constexpr std::array<std::string_view, 4> kPrefixes{"language_model.", "model.language_model.", "model.", ""};
  return models::find_prefix(store, kPrefixes, "embed_tokens.weight");
}

std::string layer_name(const std::string& prefix, int index, std::string_view module) { return fmt::format("{}layers.{}.{}", prefix, index, module); }

NumberFormat weight_format(const Precision& precision) { return precision.rows != DType::f32 ? precision.weight : NumberFormat{}; }

std::vector<ParamSpec> parameters(const Config& config, const std::string& prefix, int layers) {
  const std::int64_t q_columns = std::int64_t(config.heads) * config.head_dim;
  const std::int64_t kv_columns = std::int64_t(config.kv_heads) * config.head_dim;
  std::vector<ParamSpec> list;
  list.push_back({.name = prefix + "embed_tokens.weight", .shape = {config.vocabulary, config.hidden}, .role = ParamRole::embedding});
  for (int l = 0; l < layers; ++l) {
    const auto add = [&](std::string_view name, Shape shape, ParamRole role) {
      list.push_back({.name = fmt::format("{}layers.{}.{}.weight", prefix, l, name), .shape = shape, .role = role});
    };
    add("input_layernorm", {config.hidden}, ParamRole::norm);
    add("self_attn.q_proj", {q_columns, config.hidden}, ParamRole::linear_weight);
    add("self_attn.k_proj", {kv_columns, config.hidden}, ParamRole::linear_weight);
    add("self_attn.v_proj", {kv_columns, config.hidden}, ParamRole::linear_weight);
    add("self_attn.o_proj", {config.hidden, q_columns}, ParamRole::linear_weight);
    add("self_attn.q_norm", {config.head_dim}, ParamRole::norm);
    add("self_attn.k_norm", {config.head_dim}, ParamRole::norm);
    add("post_attention_layernorm", {config.hidden}, ParamRole::norm);
    add("mlp.gate_proj", {config.intermediate, config.hidden}, ParamRole::linear_weight);
    add("mlp.up_proj", {config.intermediate, config.hidden}, ParamRole::linear_weight);
    add("mlp.down_proj", {config.hidden, config.intermediate}, ParamRole::linear_weight);
  }
  return list;
}

}  // namespace octavo::qwen3_vl
