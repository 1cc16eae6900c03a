// The intermediate tensors of one call, kept for a file that other programs can compare with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace octavo {

// tokens I32 [T], text_features F32 [T, F], sigmas F32 [N + 1], latents_per_step, velocity_cond, velocity_uncond F32 [N, B, L, C]
// (raw network outputs, data - noise, before guidance), image F32 [H, W, 3] in 0..1 before the 8-bit rounding ([B, H, W, 3] if B > 1).
class Dump {
 public:
  Dump(int steps, int batch, std::int64_t image_tokens, std::int64_t channels, int height, int width);

  void set_text(std::span<const std::int32_t> tokens, const TensorView& features);
  void set_sigmas(std::span<const float> sigmas);
  // Windows to fill: f32 [L, C] for one step of one picture, f32 [H, W, 3] for one picture.
  TensorView latents(int step, int picture) { return at(latents_, step, picture); }
  TensorView velocity_cond(int step, int picture) { return at(velocity_cond_, step, picture); }
  TensorView velocity_uncond(int step, int picture) { return at(velocity_uncond_, step, picture); }
  TensorView image(int picture);

  // Whole or not at all. Throws InvalidArgument if the path cannot be written.
  void write(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata) const;

 private:
  TensorView at(const Tensor& tensor, int step, int picture) const;

  std::int64_t batch_;
  Tensor tokens_{}, features_{}, sigmas_{}, latents_, velocity_cond_, velocity_uncond_, images_;
};

}  // namespace octavo
