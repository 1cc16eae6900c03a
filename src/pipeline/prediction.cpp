#include "pipeline/prediction.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "models/flux2_vae/vae.h"
#include "models/ideogram4/dit.h"
#include "models/qwen3_vl/text_encoder.h"
#include "pipeline/memory.h"
#include "pipeline/model_index.h"
#include "pipeline/request_plan.h"

namespace octavo {
namespace {

constexpr int kTextTokens = 512;  // a long JSON caption; the longest prompt is four times that

double sum_of(const std::vector<MemoryItem>& items) {
  double sum = 0;
  for (const MemoryItem& item : items) sum += item.bytes;
  return sum;
}

// What a quantised file laid over both denoisers takes the place of.
double replaced_bytes(const std::vector<InventoryComponent>& components) {
  double sum = 0;
  for (const InventoryComponent& overlay : components) {
    for (const InventoryComponent& base : components) {
      const std::string_view prefix = base.name == "transformer" ? "conditional." : base.name == "unconditional_transformer" ? "unconditional." : "";
      if (prefix.empty() || overlay.name != kOverlay) continue;
      for (const InventoryLayer& layer : base.layers) {
        const std::string name = std::string(prefix) + layer.module;
        const bool is_replaced = std::any_of(overlay.layers.begin(), overlay.layers.end(), [&](const InventoryLayer& other) { return other.module == name; });
        if (is_replaced) sum += double(layer.loaded_bytes);
      }
    }
  }
  return sum;
}

}  // namespace

MemoryPrediction predict_memory(const std::filesystem::path& model, const std::vector<InventoryComponent>& components, std::optional<int> width,
                                std::optional<int> height) {
  const ModelIndex index = ModelIndex::read(model);
  const auto text = qwen3_vl::Config::read(index.component("text_encoder"));
  const auto denoiser = ideogram4::Config::read(index.component("transformer"));
  const auto vae = flux2_vae::Config::read(index.component("vae"));
  const RequestPlan plan = plan_request({.width = width, .height = height}, index.defaults, vae.scale() * vae.patch);

  MemoryPrediction prediction{.width = *plan.request.width, .height = *plan.request.height, .steps = *plan.request.steps, .text_tokens = kTextTokens};
  for (const InventoryComponent& component : components) {
    (component.name == "text_encoder" ? prediction.text_weights : prediction.draw_weights) += double(component.loaded_bytes());
  }
  prediction.draw_weights -= replaced_bytes(components);
  prediction.text_activations = sum_of(estimate_memory({.text_tokens = kTextTokens,
                                                        .text_hidden = double(text.hidden),
                                                        .text_intermediate = double(text.intermediate),
                                                        .text_features = double(denoiser.llm_features)}));
  prediction.draw_activations = sum_of(estimate_memory({.text_tokens = kTextTokens,
                                                        .text_features = double(denoiser.llm_features),
                                                        .image_tokens = double(plan.image_tokens()),
                                                        .channels = double(denoiser.in_channels),
                                                        .hidden = double(denoiser.hidden()),
                                                        .intermediate = double(denoiser.intermediate),
                                                        .layers = double(denoiser.layers),
                                                        .head_dim = double(denoiser.head_dim),
                                                        .pixels = double(prediction.width) * prediction.height,
                                                        .decoder_channels = decoder_channels_of(vae.block_channels),
                                                        .steps = double(prediction.steps),
                                                        .batch = 1}));
  return prediction;
}

}  // namespace octavo
