#include "weights/llama_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace octavo {
namespace {

constexpr std::pair<std::string_view, std::string_view> kOutside[] = {{"token_embd", "embed_tokens"}, {"output_norm", "norm"}, {"output", "lm_head"}};
constexpr std::pair<std::string_view, std::string_view> kInLayer[] = {{"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
                                                                      {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
                                                                      {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
                                                                      {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
                                                                      {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
                                                                      {"ffn_down", "mlp.down_proj"}};

}  // namespace

std::string reference_name_of_llama(std::string_view name) {
  const std::size_t last_dot = name.rfind('.');
  if (last_dot == std::string_view::npos) return std::string(name);
  const std::string_view module = name.substr(0, last_dot), kind = name.substr(last_dot);
  for (const auto& [theirs, ours] : kOutside) {
    if (module == theirs) return fmt::format("{}{}", ours, kind);
  }
  if (!module.starts_with("blk.")) return std::string(name);
  const std::string_view rest = module.substr(4);
  const std::size_t dot = rest.find('.');
  const std::string_view layer = rest.substr(0, dot);
  if (dot == std::string_view::npos || layer.empty() || !std::all_of(layer.begin(), layer.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::string(name);
  for (const auto& [theirs, ours] : kInLayer) {
    if (rest.substr(dot + 1) == theirs) return fmt::format("layers.{}.{}{}", layer, ours, kind);
  }
  return std::string(name);
}

}  // namespace octavo
