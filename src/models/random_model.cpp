#include "models/random_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "base/files.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/utf8.h"
#include "models/flux2_vae/params.h"
#include "models/ideogram4/params.h"
#include "models/qwen3_vl/params.h"
#include "octavo/error.h"
#include "ops/random_fill/random_fill.h"
#include "text/tokenizer.h"
#include "weights/weight_store.h"

namespace octavo::models {
namespace {

constexpr std::array<std::string_view, 2> kNames{"ideogram4", "ideogram4-tiny"};
constexpr std::string_view kFile = "diffusion_pytorch_model.safetensors";

// The sizes that differ between the two. Full size: spec sections 3.1, 6.1, 9.1.
struct Size {
  int layers, heads, intermediate, adaln;
  int text_hidden, text_layers, text_intermediate, text_heads, text_kv_heads, text_head_dim, taps;
  std::vector<int> vae_blocks;
  int latent_channels, norm_groups, vae_layers;
};

Size size_of(std::string_view name) {
  if (name == kNames[0]) return {34, 18, 12288, 512, 4096, 36, 12288, 32, 8, 128, 13, {128, 256, 512, 512}, 32, 32, 2};
  if (name == kNames[1]) return {2, 2, 1024, 64, 256, 4, 512, 4, 2, 64, 2, {32, 32, 64, 64}, 32, 8, 1};
  throw InvalidArgument(fmt::format("bench model: '{}' is not known; known: {}", name, fmt::join(kNames, ", ")));
}

Json denoiser_config(const Size& size) {
  return {{"_class_name", "Ideogram4Transformer2DModel"},
          {"num_layers", size.layers},
          {"num_attention_heads", size.heads},
          {"attention_head_dim", 256},
          {"intermediate_size", size.intermediate},
          {"adaln_dim", size.adaln},
          {"in_channels", 4 * size.latent_channels},
          {"llm_features_dim", size.text_hidden * size.taps},
          {"rope_theta", 5000000},
          {"mrope_section", {24, 20, 20}},
          {"norm_eps", 1e-5}};
}

Json text_config(const Size& size) {
  return {{"model_type", "qwen3_vl"},
          {"text_config",
           {{"hidden_size", size.text_hidden},
            {"num_hidden_layers", size.text_layers},
            {"intermediate_size", size.text_intermediate},
            {"num_attention_heads", size.text_heads},
            {"num_key_value_heads", size.text_kv_heads},
            {"head_dim", size.text_head_dim},
            {"vocab_size", 1024},
            {"rms_norm_eps", 1e-6},
            {"rope_theta", 5000000}}}};
}

Json vae_config(const Size& size) {
  return {{"_class_name", "AutoencoderKLFlux2"},
          {"in_channels", 3},
          {"latent_channels", size.latent_channels},
          {"block_out_channels", size.vae_blocks},
          {"layers_per_block", size.vae_layers},
          {"norm_num_groups", size.norm_groups},
          {"batch_norm_eps", 1e-4}};
}

void write_json(const std::filesystem::path& path, const Json& json) {
  AtomicFile file(path);
  const std::string text = json.dump(1);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

// Byte-level BPE that joins nothing: a token per byte, and three for the chat template. GPT-2's alphabet of bytes lies in U+0001 to U+0143.
Json tokenizer_json() {
  Json vocabulary = Json::object();
  std::int32_t id = 0;
  for (char32_t c = 1; c <= 0x143; ++c) {
    std::string symbol;
    append_utf8(symbol, c);
    vocabulary[symbol] = id++;
  }
  Json added = Json::array();
  for (const char* content : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) added.push_back({{"id", id++}, {"content", content}});
  return {{"added_tokens", added}, {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
}

// `needs`: whether somebody reads the numbers of a tensor that is no matrix of a linear.
void write_component(const std::filesystem::path& folder, const Json& config, const std::vector<ParamSpec>& specs,
                     const std::function<bool(const ParamSpec&)>& needs) {
  std::filesystem::create_directories(folder);
  write_json(folder / "config.json", config);

  ExecContext cpu;
  std::vector<Tensor> owned;
  std::vector<NamedTensor> tensors;
  for (const ParamSpec& spec : specs) {
    if (spec.role == ParamRole::linear_weight || !needs(spec)) {
      tensors.push_back({spec.name, TensorView(nullptr, DType::bf16, spec.shape)});
      continue;
    }
    Tensor tensor(DType::bf16, spec.shape, {}, spec.name);
    const bool is_one = (spec.role == ParamRole::norm && spec.name.ends_with(".weight")) || spec.name.ends_with("running_var");
    if (is_one) {
      std::fill_n(tensor.as<bf16>(), spec.shape.elements(), to_bf16(1.0f));
    } else {
      const bool is_filter = spec.role == ParamRole::conv_weight;
      const float sigma = is_filter ? 1.0f / std::sqrt(float(spec.shape.elements() / spec.shape[0])) : 0.02f;
      random_fill(cpu, tensor, sigma, std::hash<std::string>{}(spec.name));
    }
    tensors.push_back({spec.name, tensor});
    owned.push_back(std::move(tensor));
  }
  write_sparse_safetensors(folder / kFile, tensors, {{kRandomWeightsKey, "1"}});
}

}  // namespace

std::span<const std::string_view> random_model_names() { return kNames; }

std::vector<int> random_model_taps(std::string_view name) {
  const Size size = size_of(name);
  std::vector<int> taps;
  for (int l = 0; l < size.text_layers && int(taps.size()) + 1 < size.taps; l += 3) taps.push_back(l);
  taps.push_back(size.text_layers - 1);
  return taps;
}

void write_random_model(const std::filesystem::path& folder, std::string_view name) {
  const Size size = size_of(name);
  std::filesystem::create_directories(folder / "tokenizer");
  write_json(folder / "tokenizer" / "tokenizer.json", tokenizer_json());
  write_json(folder / "model_index.json", {{"_class_name", "Ideogram4Pipeline"}, {"text_encoder_taps", random_model_taps(name)}});
  const auto always = [](const ParamSpec&) { return true; };
  for (const bool has_text : {true, false}) {
    const std::filesystem::path part = folder / (has_text ? "transformer" : "unconditional_transformer");
    const Json json = denoiser_config(size);
    const ideogram4::Names names{.prefix = "", .is_fused = true};
    const ideogram4::Config config{.layers = size.layers,
                                   .heads = size.heads,
                                   .head_dim = 256,
                                   .intermediate = size.intermediate,
                                   .adaln = size.adaln,
                                   .in_channels = 4 * size.latent_channels,
                                   .llm_features = size.text_hidden * size.taps};
    write_component(part, json, ideogram4::parameters(config, names, has_text), always);
  }
  const qwen3_vl::Config text{.hidden = size.text_hidden,
                              .layers = size.text_layers,
                              .intermediate = size.text_intermediate,
                              .heads = size.text_heads,
                              .kv_heads = size.text_kv_heads,
                              .head_dim = size.text_head_dim,
                              .vocabulary = 1024};
  write_component(folder / "text_encoder", text_config(size), qwen3_vl::parameters(text, "language_model.", size.text_layers), always);

  const flux2_vae::Config vae{.image_channels = 3,
                              .latent_channels = size.latent_channels,
                              .block_channels = size.vae_blocks,
                              .decoder_block_channels = size.vae_blocks,
                              .layers_per_block = size.vae_layers,
                              .norm_groups = size.norm_groups};
  std::vector<ParamSpec> specs = flux2_vae::decoder_spec(vae, {}).parameters();
  for (const auto& more : {flux2_vae::encoder_spec(vae, {}).parameters(), flux2_vae::statistics_parameters(vae)})
    specs.insert(specs.end(), more.begin(), more.end());
  const auto is_decoders = [](const ParamSpec& spec) { return !spec.name.starts_with("encoder.") && !spec.name.starts_with("quant_conv."); };
  write_component(folder / "vae", vae_config(size), specs, is_decoders);
}

std::string random_model_prompt(int tokens) {
  const Tokenizer tokenizer = Tokenizer::from_json(tokenizer_json().dump(), "tokenizer of a random model");
  const int least = int(tokenizer.encode(chat_prompt("")).size());
  if (tokens < least) throw InvalidArgument(fmt::format("bench model: {} text tokens are too few; the chat template alone has {}", tokens, least));
  std::string prompt;
  for (int i = 0; i < tokens - least; ++i) prompt += char('a' + i * 7 % 26);
  return prompt;
}

TemporaryRandomModel::TemporaryRandomModel(std::string_view name) {
  std::string pattern = (std::filesystem::temp_directory_path() / "octavo-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw InvalidArgument(
        fmt::format("bench model: no folder can be made in '{}'; set TMPDIR to one that can be written", std::filesystem::temp_directory_path().string()));
  path_ = pattern;
  try {
    write_random_model(path_, name);
  } catch (...) {
    remove();
    throw;
  }
}

TemporaryRandomModel::~TemporaryRandomModel() { remove(); }

void TemporaryRandomModel::remove() noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace octavo::models
