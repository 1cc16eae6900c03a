#include "models/ideogram4/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/checkpoint.h"

namespace octavo::ideogram4 {
namespace {

constexpr std::array<std::string_view, 3> kPrefixes{"", "model.diffusion_model.", "diffusion_model."};
constexpr std::string_view kFamilyKey = "embed_image_indicator.weight";  // only this family has it

constexpr std::array<std::string_view, 6> kSensitive{"embed_image_indicator", "t_embedding", "llm_cond_proj", "adaln_proj", "final_layer", "input_proj"};

}  // namespace

std::span<const std::string_view> sensitive_modules() { return kSensitive; }

Names Names::find(const WeightStore& store) {
  Names names;
  names.prefix = models::find_prefix(store, kPrefixes, kFamilyKey);
  names.is_fused = store.has(names.layer(0, "attention.qkv.weight"));
  return names;
}

//   attention and MLP read norm(h) · weight · (1 + mod_scale): proportional to the norm's weight
//   the output projection reads weighted means of value rows, channel by channel: proportional to the rows of W_v
//   w2 reads silu(W1 x) · (W3 x): proportional to the rows of W3
std::vector<models::SmoothingSite> smoothing_sites(const WeightStore& store) {
  std::vector<models::SmoothingSite> sites;
  const Names names = Names::find(store);
  if (!store.has(names(kFamilyKey))) return sites;
  for (int l = 0; store.has(names.layer(l, "feed_forward.w1.weight")); ++l) {
    const auto at = [&](std::string_view name) { return names.layer(l, name); };
    const std::string value = at(names.is_fused ? "attention.qkv" : "attention.to_v");
    const std::int64_t hidden = store.linear(value).in_features();
    if (names.is_fused) {
      sites.push_back({.readers = {value}, .vector = at("attention_norm1.weight")});
    } else {
      sites.push_back({.readers = {at("attention.to_q"), at("attention.to_k"), value}, .vector = at("attention_norm1.weight")});
    }
    sites.push_back({.readers = {names.attention_output(l)}, .module = value, .first_row = names.is_fused ? 2 * hidden : 0});
    sites.push_back({.readers = {at("feed_forward.w1"), at("feed_forward.w3")}, .vector = at("ffn_norm1.weight")});
    sites.push_back({.readers = {at("feed_forward.w2")}, .module = at("feed_forward.w3"), .first_row = 0});
  }
  return sites;
}

std::string Names::operator()(std::string_view name) const { return fmt::format("{}{}", prefix, name); }

std::string Names::layer(int index, std::string_view name) const { return fmt::format("{}layers.{}.{}", prefix, index, name); }

// Fused rows are taken as three parts too, so that both forms run the same three products and give the same bits.
std::vector<nn::LinearPart> Names::qkv(const Config& config, int index) const {
  const std::int64_t rows = config.hidden();
  if (is_fused) {
    const std::string fused = layer(index, "attention.qkv");
    return {{fused, rows}, {fused, rows}, {fused, rows}};
  }
  return {{layer(index, "attention.to_q"), rows}, {layer(index, "attention.to_k"), rows}, {layer(index, "attention.to_v"), rows}};
}

std::string Names::attention_output(int index) const { return layer(index, is_fused ? "attention.o" : "attention.to_out.0"); }

std::vector<LoraTarget> lora_targets(const Config& config, bool has_text) {
  const std::int64_t hidden = config.hidden(), width = config.intermediate;
  std::vector<LoraTarget> list;
  const auto whole = [&](const std::string& module, std::int64_t out, std::int64_t in) {
    list.push_back({.module = module, .projection = module, .rows = out, .columns = in});
  };
  whole("input_proj", hidden, config.in_channels);
  if (has_text) whole("llm_cond_proj", hidden, config.llm_features);
  whole("t_embedding.mlp_in", hidden, hidden);
  whole("t_embedding.mlp_out", hidden, hidden);
  whole("adaln_proj", config.adaln, hidden);
  whole("final_layer.adaln_modulation", hidden, config.adaln);
  whole("final_layer.linear", config.in_channels, hidden);
  list.push_back({.module = "final_linear", .projection = "final_layer.linear", .rows = config.in_channels, .columns = hidden});
  for (int l = 0; l < config.layers; ++l) {
    const auto layer = [&](std::string_view name) { return fmt::format("layers.{}.{}", l, name); };
    const auto part = [&](std::string_view module, std::string_view projection, std::int64_t first, std::int64_t out, std::int64_t in) {
      list.push_back({.module = layer(module), .projection = layer(projection), .first_row = first, .rows = out, .columns = in});
    };
    part("attention.qkv", "attention.qkv", 0, 3 * hidden, hidden);
    part("attention.to_q", "attention.qkv", 0, hidden, hidden);
    part("attention.to_k", "attention.qkv", hidden, hidden, hidden);
    part("attention.to_v", "attention.qkv", 2 * hidden, hidden, hidden);
    part("attention.o", "attention.o", 0, hidden, hidden);
    part("attention.to_out.0", "attention.o", 0, hidden, hidden);
    part("feed_forward.w1", "feed_forward.w13", 0, width, hidden);
    part("feed_forward.w3", "feed_forward.w13", width, width, hidden);
    part("feed_forward.w2", "feed_forward.w2", 0, hidden, width);
    part("adaln_modulation", "adaln_modulation", 0, 4 * hidden, config.adaln);
  }
  return list;
}

std::vector<ParamSpec> parameters(const Config& config, const Names& names, bool has_text) {
  const std::int64_t hidden = config.hidden();
  std::vector<ParamSpec> list;
  const auto weight = [&](const std::string& module, std::int64_t out, std::int64_t in) {
    list.push_back({.name = module + ".weight", .shape = {out, in}, .role = ParamRole::linear_weight});
  };
  const auto biased = [&](const std::string& module, std::int64_t out, std::int64_t in) {
    weight(module, out, in);
    list.push_back({.name = module + ".bias", .shape = {out}, .role = ParamRole::bias});
  };
  const auto norm = [&](const std::string& module, std::int64_t columns) {
    list.push_back({.name = module + ".weight", .shape = {columns}, .role = ParamRole::norm});
  };

  list.push_back({.name = names("embed_image_indicator.weight"), .shape = {2, hidden}, .role = ParamRole::embedding});
  biased(names("input_proj"), hidden, config.in_channels);
  if (has_text) {
    norm(names("llm_cond_norm"), config.llm_features);
    biased(names("llm_cond_proj"), hidden, config.llm_features);
  }
  biased(names("t_embedding.mlp_in"), hidden, hidden);
  biased(names("t_embedding.mlp_out"), hidden, hidden);
  biased(names("adaln_proj"), config.adaln, hidden);
  for (int l = 0; l < config.layers; ++l) {
    const std::vector<nn::LinearPart> qkv = names.qkv(config, l);
    if (names.is_fused) {
      weight(qkv[0].module, 3 * hidden, hidden);
    } else {
      for (const nn::LinearPart& part : qkv) weight(part.module, part.rows, hidden);
    }
    weight(names.attention_output(l), hidden, hidden);
    norm(names.layer(l, "attention.norm_q"), config.head_dim);
    norm(names.layer(l, "attention.norm_k"), config.head_dim);
    weight(names.layer(l, "feed_forward.w1"), config.intermediate, hidden);
    weight(names.layer(l, "feed_forward.w3"), config.intermediate, hidden);
    weight(names.layer(l, "feed_forward.w2"), hidden, config.intermediate);
    for (const std::string_view name : {"attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"}) norm(names.layer(l, name), hidden);
    biased(names.layer(l, "adaln_modulation"), 4 * hidden, config.adaln);
  }
  biased(names("final_layer.adaln_modulation"), hidden, config.adaln);
  biased(names("final_layer.linear"), config.in_channels, hidden);
  return list;
}

}  // namespace octavo::ideogram4
