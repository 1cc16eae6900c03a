#include <fmt/format.h>

#include "models/config_reader.h"
#include "models/flux2_vae/vae.h"
#include "octavo/error.h"

namespace octavo::flux2_vae {

int Config::scale() const { return 1 << (int(block_channels.size()) - 1); }

Config Config::read(const std::filesystem::path& folder) {
  const models::ConfigReader file(folder);
  file.expect_family("_class_name", {"AutoencoderKLFlux2"});
  constexpr int kMaxBlocks = 8;  // 2^7 pixels per latent pixel
  constexpr int kMaxChannels = 1 << 16;
  Config config;
  config.image_channels = int(file.integer("in_channels", 3, 3));
  if (file.has("out_channels")) file.integer("out_channels", 3, 3);
  config.latent_channels = int(file.integer("latent_channels", 1, kMaxChannels));
  config.block_channels = file.integers("block_out_channels", 1, kMaxBlocks, 1, kMaxChannels);
  config.decoder_block_channels = config.block_channels;
  if (file.has("decoder_block_out_channels")) {
    config.decoder_block_channels = file.integers("decoder_block_out_channels", config.block_channels.size(), config.block_channels.size(), 1, kMaxChannels);
  }
  config.layers_per_block = int(file.integer("layers_per_block", 1, 64));
  config.norm_groups = int(file.integer("norm_num_groups", 1, kMaxChannels));
  config.batch_norm_eps = file.number("batch_norm_eps", 0, 1);
  config.has_quant_conv = file.flag("use_quant_conv", true);
  config.has_post_quant_conv = file.flag("use_post_quant_conv", true);
  config.has_mid_attention = file.flag("mid_block_add_attention", true);
  if (file.has("patch_size")) {
    const std::vector<int> patch = file.integers("patch_size", 2, 2, 1, 16);
    if (patch[0] != patch[1]) throw Unsupported(fmt::format("{}: 'patch_size' is [{}, {}]; only square patches are built", file.who(), patch[0], patch[1]));
    config.patch = patch[0];
  }
  if (const std::string act = file.text("act_fn", "silu"); act != "silu")
    throw Unsupported(fmt::format("{}: 'act_fn' is '{}'; only silu is built", file.who(), act));
  for (const std::vector<int>& widths : {config.block_channels, config.decoder_block_channels}) {
    for (const int channels : widths) {
      if (channels % config.norm_groups == 0) continue;
      throw DataError(fmt::format("{}: a block has {} channels, not a multiple of 'norm_num_groups' {}", file.who(), channels, config.norm_groups));
    }
  }
  return config;
}

}  // namespace octavo::flux2_vae
