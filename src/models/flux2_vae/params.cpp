#include "models/flux2_vae/params.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/flux2_vae/latent_statistics.h"

namespace octavo::flux2_vae {
namespace {

// Writes the names of one network ("encoder" or "decoder") in one of the two styles.
struct NameWriter {
  std::string_view network;
  bool is_internal;

  std::string conv(std::string_view name) const { return fmt::format("{}.{}", network, name); }
  std::string middle_resnet(int j) const {
    return is_internal ? fmt::format("{}.mid.block_{}", network, j + 1) : fmt::format("{}.mid_block.resnets.{}", network, j);
  }
  std::string stage_resnet(int stage, int j) const {
    return is_internal ? fmt::format("{}.block.{}", stage_name(stage), j) : fmt::format("{}.resnets.{}", stage_name(stage), j);
  }
  std::string resample(int stage) const {
    const bool is_encoder = network == "encoder";
    if (is_internal) return fmt::format("{}.{}.conv", stage_name(stage), is_encoder ? "downsample" : "upsample");
    return fmt::format("{}.{}.0.conv", stage_name(stage), is_encoder ? "downsamplers" : "upsamplers");
  }
  std::string norm_out() const { return conv(is_internal ? "norm_out" : "conv_norm_out"); }
  std::string quant_conv() const {
    const std::string_view name = network == "encoder" ? "quant_conv" : "post_quant_conv";
    return is_internal ? conv(name) : std::string(name);
  }
  ResnetSpec resnet(const std::string& module, int in, int out) const {
    return {module, in, out, in == out ? "" : fmt::format("{}.{}", module, is_internal ? "nin_shortcut" : "conv_shortcut")};
  }
  AttentionSpec attention(int channels) const {
    const std::string base = fmt::format("{}.{}.", network, is_internal ? "mid.attn_1" : "mid_block.attentions.0");
    if (is_internal) return {base + "norm", base + "q", base + "k", base + "v", base + "proj_out", channels, true};
    return {base + "group_norm", base + "to_q", base + "to_k", base + "to_v", base + "to_out.0", channels, false};
  }

  int stages = 0;

 private:
  // The internal style counts the decoder's stages from the picture side.
  std::string stage_name(int stage) const {
    if (network == "encoder") return fmt::format("encoder.{}.{}", is_internal ? "down" : "down_blocks", stage);
    return is_internal ? fmt::format("decoder.up.{}", stages - 1 - stage) : fmt::format("decoder.up_blocks.{}", stage);
  }
};

void add_middle(NetworkSpec& spec, const NameWriter& write, int channels, bool has_attention) {
  for (int j = 0; j < 2; ++j) spec.middle.push_back(write.resnet(write.middle_resnet(j), channels, channels));
  if (has_attention) spec.attention = write.attention(channels);
}

StageSpec stage_spec(const NameWriter& write, int stage, int in, int out, int resnets, bool is_last) {
  StageSpec spec;
  for (int j = 0; j < resnets; ++j) spec.resnets.push_back(write.resnet(write.stage_resnet(stage, j), j == 0 ? in : out, out));
  if (!is_last) spec.resample = ConvSpec{write.resample(stage), out, out};
  return spec;
}

}  // namespace

Names Names::find(const WeightStore& store) { return {.is_internal = store.has("decoder.mid.block_1.conv1.weight")}; }

NetworkSpec encoder_spec(const Config& config, const Names& names) {
  const int count = int(config.block_channels.size());
  const NameWriter write{"encoder", names.is_internal, count};
  const std::vector<int>& widths = config.block_channels;
  NetworkSpec spec;
  spec.conv_in = {write.conv("conv_in"), config.image_channels, widths.front()};
  for (int i = 0; i < count; ++i) {
    const int in = widths[std::size_t(std::max(i - 1, 0))];
    spec.stages.push_back(stage_spec(write, i, in, widths[std::size_t(i)], config.layers_per_block, i + 1 == count));
  }
  add_middle(spec, write, widths.back(), config.has_mid_attention);
  spec.norm_out = write.norm_out();
  spec.conv_out = {write.conv("conv_out"), widths.back(), 2 * config.latent_channels};
  if (config.has_quant_conv) spec.quant_conv = ConvSpec{write.quant_conv(), 2 * config.latent_channels, 2 * config.latent_channels, 1};
  return spec;
}

NetworkSpec decoder_spec(const Config& config, const Names& names) {
  const int count = int(config.decoder_block_channels.size());
  const NameWriter write{"decoder", names.is_internal, count};
  const std::vector<int> widths(config.decoder_block_channels.rbegin(), config.decoder_block_channels.rend());
  NetworkSpec spec;
  if (config.has_post_quant_conv) spec.quant_conv = ConvSpec{write.quant_conv(), config.latent_channels, config.latent_channels, 1};
  spec.conv_in = {write.conv("conv_in"), config.latent_channels, widths.front()};
  add_middle(spec, write, widths.front(), config.has_mid_attention);
  for (int i = 0; i < count; ++i) {
    const int in = widths[std::size_t(std::max(i - 1, 0))];
    spec.stages.push_back(stage_spec(write, i, in, widths[std::size_t(i)], config.layers_per_block + 1, i + 1 == count));
  }
  spec.norm_out = write.norm_out();
  spec.conv_out = {write.conv("conv_out"), widths.back(), config.image_channels};
  return spec;
}

std::vector<ParamSpec> NetworkSpec::parameters() const {
  std::vector<ParamSpec> list;
  const auto vectors = [&](const std::string& module, int channels) {
    list.push_back({.name = module + ".weight", .shape = {channels}, .role = ParamRole::norm});
    list.push_back({.name = module + ".bias", .shape = {channels}, .role = ParamRole::bias});
  };
  const auto conv = [&](const ConvSpec& c) {
    list.push_back({.name = c.module + ".weight", .shape = {c.out, c.in, c.kernel, c.kernel}, .role = ParamRole::conv_weight});
    list.push_back({.name = c.module + ".bias", .shape = {c.out}, .role = ParamRole::bias});
  };
  const auto resnet = [&](const ResnetSpec& r) {
    vectors(r.module + ".norm1", r.in);
    conv({r.module + ".conv1", r.in, r.out});
    vectors(r.module + ".norm2", r.out);
    conv({r.module + ".conv2", r.out, r.out});
    if (!r.shortcut.empty()) conv({r.shortcut, r.in, r.out, 1});
  };
  if (quant_conv) conv(*quant_conv);
  conv(conv_in);
  for (const ResnetSpec& r : middle) resnet(r);
  if (attention) {
    const int c = attention->channels;
    vectors(attention->norm, c);
    for (const std::string& module : {attention->to_q, attention->to_k, attention->to_v, attention->to_out}) {
      list.push_back({.name = module + ".weight", .shape = attention->is_conv ? Shape{c, c, 1, 1} : Shape{c, c}, .role = ParamRole::linear_weight});
      list.push_back({.name = module + ".bias", .shape = {c}, .role = ParamRole::bias});
    }
  }
  for (const StageSpec& stage : stages) {
    for (const ResnetSpec& r : stage.resnets) resnet(r);
    if (stage.resample) conv(*stage.resample);
  }
  vectors(norm_out, conv_out.in);
  conv(conv_out);
  return list;
}

std::vector<ParamSpec> statistics_parameters(const Config& config) {
  const bool is_optional = config.token_channels() == kPublishedChannels;
  std::vector<ParamSpec> list;
  for (const std::string_view name : {"bn.running_mean", "bn.running_var"}) {
    list.push_back({.name = std::string(name), .shape = {config.token_channels()}, .role = ParamRole::statistic, .optional = is_optional});
  }
  return list;
}

}  // namespace octavo::flux2_vae
