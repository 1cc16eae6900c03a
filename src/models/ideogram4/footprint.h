// What the denoiser takes on a device, told before anything is loaded: its weights from the file's headers, its rows from the sizes of a picture.
// The rows follow dit.cpp and conditioning.cpp take by take; a test holds them to what an Arena counts there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "models/ideogram4/dit.h"
#include "nn/footprint.h"
#include "nn/linear.h"

namespace octavo::ideogram4 {

// MLP rows at a time: on the CPU the widest activation is then 1024 x 2F (100 MB in float32 for the full model) instead of S x 2F (up to 1.8 GB),
// and a weight that is converted to float32 on its way is still used 1024 times. A GPU takes all rows at once: its memory holds them, and large products fill
// it.
std::int64_t mlp_panel_rows(Device device, std::int64_t rows);

struct PictureSize {
  std::int64_t text_rows = 0;  // 0: the unconditional branch
  std::int64_t image_rows = 0;
  std::int64_t steps = 0;
  AttentionKind attention = AttentionKind::automatic;
  const LoraTerms* lora = nullptr;  // as Dit::prepare takes them; null: none
};

class DitFootprint {
 public:
  // Opens the checkpoint as Dit would and reads its headers. Throws as Dit does.
  DitFootprint(const std::filesystem::path& folder, const std::string& component, const Precision& precision);

  const Config& config() const { return config_; }
  // Weights on a GPU. `layers`: the projections of each, which can be streamed; `streamed_bytes`: the same as BlockStream packs them.
  const std::vector<nn::Footprint>& layers() const { return layer_bytes_; }
  std::int64_t largest_streamed_bytes() const { return largest_streamed_; }
  const nn::Footprint& conditioning() const { return conditioning_; }  // what only prepare() reads
  const nn::Footprint& rest() const { return rest_; }

  // What a Session keeps on the device (its LoRAs apart), the features that prepare() brings there, and what it and forward() take from the scratch arena at
  // most, without the workspaces of the ops.
  nn::Footprint session(Device device, const PictureSize& size) const;
  nn::Footprint placed_loras(const PictureSize& size) const;
  nn::Footprint placed_features(const PictureSize& size) const;
  std::int64_t prepare_scratch_bytes(Device device, const PictureSize& size) const;
  std::int64_t forward_scratch_bytes(Device device, const PictureSize& size) const;

 private:
  struct Layer {
    nn::LinearPlan qkv{}, attention_output{}, w13{}, w2{};
  };
  // One of them as a session with LoRAs runs it, and the rows that it gets.
  struct Projection {
    const nn::LinearPlan& plan;
    std::span<const LoraTerm> terms{};
    bool reads_codes() const { return plan.input.is_quantized && terms.empty(); }
  };
  Projection projection(const nn::LinearPlan& plan, const PictureSize& size, const std::string& name) const;
  void take_linear(nn::ScratchCount& scratch, Device device, const Projection& linear, std::int64_t rows, DType x) const;
  void take_layer(nn::ScratchCount& scratch, Device device, int layer, std::int64_t live_rows, const PictureSize& size) const;

  Config config_{};
  DType rows_ = DType::f32, residual_ = DType::f32;
  std::vector<Layer> layers_{};
  nn::LinearPlan input_{}, output_{}, text_{}, time_in_{}, time_out_{}, adaln_{}, final_modulation_{};
  std::vector<nn::Footprint> layer_bytes_{};
  std::int64_t largest_streamed_ = 0;
  nn::Footprint conditioning_{}, rest_{};
};

}  // namespace octavo::ideogram4
