// How much device memory a picture will need, from configurations and file headers alone: predicted, not measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "pipeline/inventory.h"

namespace octavo {

// The text encoder leaves before the denoisers begin, so the peak is the larger of two stages.
struct MemoryPrediction {
  int width = 0, height = 0, steps = 0;  // of the picture: what was asked for, else the model's defaults
  int text_tokens = 0;                   // assumed
  double text_weights = 0, text_activations = 0;
  double draw_weights = 0, draw_activations = 0;  // both denoisers and the autoencoder; rows, modulation, the decoder's maps

  double text_bytes() const { return text_weights + text_activations; }
  double draw_bytes() const { return draw_weights + draw_activations; }
  double bytes() const { return text_bytes() > draw_bytes() ? text_bytes() : draw_bytes(); }
};

// Weights as `components` would be loaded, plus the activations of estimate_memory (float32 rows) for one picture and a prompt of 512 tokens.
// Throws as the components' configurations do, InvalidArgument for a size that generate would refuse.
MemoryPrediction predict_memory(const std::filesystem::path& model, const std::vector<InventoryComponent>& components, std::optional<int> width,
                                std::optional<int> height);

}  // namespace octavo
