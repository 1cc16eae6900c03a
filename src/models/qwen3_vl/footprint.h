// What the text encoder takes on a device, told before anything is loaded. Its rows follow text_encoder.cpp take by take; a test holds them to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "models/qwen3_vl/text_encoder.h"
#include "nn/footprint.h"
#include "nn/linear.h"

namespace octavo::qwen3_vl {

class TextFootprint {
 public:
  // Reads the headers of the checkpoint. Throws as TextEncoder does, but for taps, which must be within the layers.
  TextFootprint(const std::filesystem::path& folder, const std::vector<int>& taps, const Precision& precision);

  // Weights on a GPU, by layer up to the last tap. The embedding stays in the file.
  const std::vector<nn::Footprint>& layers() const { return layer_bytes_; }
  nn::Footprint placed_tables(std::int64_t tokens) const;  // RoPE
  std::int64_t scratch_bytes(Device device,
                             std::int64_t tokens) const;  // the most that encode() takes from the scratch arena, without the workspaces of the ops

 private:
  Config config_{};
  DType rows_ = DType::f32, residual_ = DType::f32;
  struct Layer {
    nn::LinearPlan qkv{}, attention_output{}, gate_up{}, down{};
  };
  std::vector<Layer> layers_{};
  std::vector<nn::Footprint> layer_bytes_{};
};

}  // namespace octavo::qwen3_vl
