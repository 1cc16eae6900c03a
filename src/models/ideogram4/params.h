// The declarative half of the model: what its checkpoint must hold, under which names. spec section 4
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/ideogram4/dit.h"
#include "models/quantization_policy.h"
#include "nn/linear.h"
#include "weights/lora.h"
#include "weights/weight_store.h"

namespace octavo::ideogram4 {

// How one checkpoint writes the names: official files fuse q, k and v; diffusers files split them.
struct Names {
  std::string prefix{};  // before every name
  bool is_fused = false;

  static Names find(const WeightStore& store);
  std::string operator()(std::string_view name) const;        // "input_proj"
  std::string layer(int index, std::string_view name) const;  // "layers.3.feed_forward.w1"
  std::vector<nn::LinearPart> qkv(const Config& config, int index) const;
  std::string attention_output(int index) const;
};

// Parts of module names that converters leave unquantised because an error there is seen everywhere: 3 % of the parameters. spec section 5.6
std::span<const std::string_view> sensitive_modules();

// Where smoothing can be folded: the norms before attention and MLP, the value rows before the output projection, w3 before w2.
std::vector<models::SmoothingSite> smoothing_sites(const WeightStore& store);

// Every projection under every name that LoRAs give it or its rows: fused and split attention, kohya's short name of the output layer.
// Projections are named as in the fused checkpoint, "layers.3.feed_forward.w13" for the two that run as one.
std::vector<LoraTarget> lora_targets(const Config& config, bool has_text);

// `has_text`: with llm_cond_norm and llm_cond_proj.
std::vector<ParamSpec> parameters(const Config& config, const Names& names, bool has_text);

}  // namespace octavo::ideogram4
