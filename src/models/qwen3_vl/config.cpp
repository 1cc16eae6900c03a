#include <fmt/format.h>

#include "models/config_reader.h"
#include "models/qwen3_vl/text_encoder.h"
#include "octavo/error.h"

namespace octavo::qwen3_vl {

Config Config::read(const std::filesystem::path& folder) {
  models::ConfigReader file(folder);
  file.expect_family("model_type", {"qwen3_vl", "qwen3_vl_text"});
  file.enter("text_config");
  Config config;
  config.hidden = int(file.integer("hidden_size", 1, 1 << 20));
  config.layers = int(file.integer("num_hidden_layers", 1, 1000));
  config.intermediate = int(file.integer("intermediate_size", 1, 1 << 20));
  config.heads = int(file.integer("num_attention_heads", 1, 1000));
  config.kv_heads = int(file.integer("num_key_value_heads", 1, config.heads));
  config.head_dim = int(file.integer("head_dim", 2, 4096));
  config.vocabulary = file.integer("vocab_size", 1, 1 << 24);
  config.norm_eps = float(file.number("rms_norm_eps", 0, 1));
  if (config.heads % config.kv_heads != 0) {
    throw DataError(fmt::format("{}: 'num_attention_heads' is {}, not a multiple of 'num_key_value_heads' {}", file.who(), config.heads, config.kv_heads));
  }
  if (config.head_dim % 2 != 0) throw DataError(fmt::format("{}: 'head_dim' is {}; rotary embedding needs an even number", file.who(), config.head_dim));
  if (file.flag("attention_bias", false)) throw Unsupported(fmt::format("{}: 'attention_bias' is true; this model family has no biases", file.who()));
  if (const std::string act = file.text("hidden_act", "silu"); act != "silu")
    throw Unsupported(fmt::format("{}: 'hidden_act' is '{}'; only silu is built", file.who(), act));
  if (!file.has("rope_theta")) file.enter("rope_parameters");
  config.rope_theta = file.number("rope_theta", 1, 1e12);
  return config;
}

}  // namespace octavo::qwen3_vl
