#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/config_reader.h"
#include "models/ideogram4/dit.h"
#include "octavo/error.h"

namespace octavo::ideogram4 {

Config Config::read(const std::filesystem::path& folder) {
  const models::ConfigReader file(folder);
  file.expect_family("_class_name", {"Ideogram4Transformer2DModel", "Ideogram4Transformer"});
  // The bounds only keep arithmetic on sizes far from overflow; they are no statement about what makes a good model.
  Config config;
  config.layers = int(file.integer("num_layers", 1, 1000));
  config.heads = int(file.integer("num_attention_heads", 1, 1000));
  config.head_dim = int(file.integer("attention_head_dim", 2, 4096));
  config.intermediate = int(file.integer("intermediate_size", 1, 1 << 20));
  config.adaln = int(file.integer("adaln_dim", 1, 1 << 16));
  config.in_channels = int(file.integer("in_channels", 1, 1 << 16));
  config.llm_features = int(file.integer("llm_features_dim", 1, 1 << 24));
  config.rope_theta = file.number("rope_theta", 1, 1e12);
  config.mrope_section = file.integers("mrope_section", 3, 3, 0, 4096);
  config.norm_eps = float(file.number("norm_eps", 0, 1));
  if (config.head_dim % 2 != 0)
    throw DataError(fmt::format("{}: 'attention_head_dim' is {}; rotary embedding needs an even number", file.who(), config.head_dim));
  if (config.hidden() < 4 || config.hidden() % 2 != 0) {
    throw DataError(fmt::format("{}: {} heads of {} give a width of {}; the time embedding needs an even width of at least 4", file.who(), config.heads,
                                config.head_dim, config.hidden()));
  }
  // Axis a uses frequencies a, a + 3, ..., a + 3 (section[a] - 1): spec section 3.5. The first entry is not used.
  for (int axis = 1; axis < 3; ++axis) {
    const int last = axis + 3 * (config.mrope_section[std::size_t(axis)] - 1);
    if (last >= config.head_dim / 2) {
      throw DataError(fmt::format("{}: 'mrope_section' is [{}], which reaches frequency {}, but heads of {} have {}", file.who(),
                                  fmt::join(config.mrope_section, ", "), last, config.head_dim, config.head_dim / 2));
    }
  }
  return config;
}

}  // namespace octavo::ideogram4
