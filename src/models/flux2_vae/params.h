// The declarative half of the autoencoder: its two networks as lists of layers, and what each needs from the checkpoint. spec section 9, appendix A
#pragma once

#include <optional>

#include <string>
#include <string_view>
#include <vector>

#include "models/flux2_vae/vae.h"
#include "weights/weight_store.h"

namespace octavo::flux2_vae {

// How one checkpoint writes the names: as diffusers does, or as the original internal code does. spec section 9.5
struct Names {
  bool is_internal = false;

  static Names find(const WeightStore& store);
};

struct ConvSpec {
  std::string module{};
  int in = 0, out = 0;
  int kernel = 3;
};

struct ResnetSpec {
  std::string module{};
  int in = 0, out = 0;
  std::string shortcut{};  // 1x1 convolution of the input; empty if in == out
};

struct AttentionSpec {
  std::string norm{}, to_q{}, to_k{}, to_v{}, to_out{};
  int channels = 0;
  bool is_conv = false;  // stored as [C, C, 1, 1]
};

// Resnets of one resolution, then the convolution that changes it (none in the last stage).
struct StageSpec {
  std::vector<ResnetSpec> resnets{};
  std::optional<ConvSpec> resample{};
};

// encoder: conv_in, stages, middle, norm, conv_out, quant_conv.   decoder: quant_conv, conv_in, middle, stages, norm, conv_out.
struct NetworkSpec {
  std::optional<ConvSpec> quant_conv{};
  ConvSpec conv_in{};
  std::vector<ResnetSpec> middle{};  // two, with the attention between them
  std::optional<AttentionSpec> attention{};
  std::vector<StageSpec> stages{};
  std::string norm_out{};
  ConvSpec conv_out{};

  std::vector<ParamSpec> parameters() const;
};

NetworkSpec encoder_spec(const Config& config, const Names& names);
NetworkSpec decoder_spec(const Config& config, const Names& names);
// bn.running_mean, bn.running_var.
std::vector<ParamSpec> statistics_parameters(const Config& config);

}  // namespace octavo::flux2_vae
