// The FLUX.2 autoencoder: latents to pixels and back. spec section 9
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "ops/exec_context.h"
#include "quant/precision.h"
#include "tensor/tensor.h"

namespace octavo::flux2_vae {

struct Config {
  int image_channels = 0;  // 3
  int latent_channels = 0;
  std::vector<int> block_channels{};
  std::vector<int> decoder_block_channels{};  // the same unless config.json says otherwise
  int layers_per_block = 0;                   // of the encoder; the decoder has one more
  int norm_groups = 0;
  int patch = 2;  // latent pixels per token side
  double batch_norm_eps = 0;
  bool has_quant_conv = true;
  bool has_post_quant_conv = true;
  bool has_mid_attention = true;

  int scale() const;  // pixels per latent pixel side (8 for four blocks)
  int token_channels() const { return latent_channels * patch * patch; }
  // From the component's config.json. Throws DataError / InvalidArgument as the text encoder's does.
  static Config read(const std::filesystem::path& folder);
};

// Elements of a strip: rows of a map that are normalised and convolved at a time. In bf16 that many fit the L2 of a large GPU; fewer would leave SMs idle in
// the last wave of a convolution.
inline constexpr std::int64_t kStripElements = std::int64_t(1) << 24;

class Vae {
 public:
  // Diffusers names and the original internal ones (spec section 9.5) are both accepted. Maps between layers are of the types that `precision`
  // names (numerics.md section 10); weights keep their stored dtype. The encoder's weights are checked now but first read by encode().
  // Throws InvalidArgument if the folder is missing or of another family, DataError if a tensor is missing or disagrees with config.json.
  Vae(ExecContext& ctx, const std::filesystem::path& folder, const Precision& precision);
  ~Vae();
  Vae(Vae&&) noexcept;

  const Config& config() const;

  // z = z * scale + shift per token channel, in place: the appendix B constants for 128 channels (spec section 9.4, with one warning through the
  // observer if the file's own statistics disagree), else running_mean and sqrt(running_var + eps) of `bn`.   f32 [L, token_channels]
  void denormalize(ExecContext& ctx, const TensorView& tokens) const;
  void normalize(ExecContext& ctx, const TensorView& tokens) const;

  // Token channel (ph * patch + pw) * latent_channels + c  <->  latent[y * patch + ph, x * patch + pw, c].  f32, tokens [grid_h * grid_w, C].
  Tensor unpatchify(const TensorView& tokens, int grid_h, int grid_w) const;  // -> [H/8, W/8, latent_channels]
  Tensor patchify(const TensorView& latent) const;

  // f32 [h, w, latent_channels] -> f32 [8h, 8w, 3], nominal range [-1, 1]. The strips cost or save memory and time; they do not show in the picture.
  Tensor decode(ExecContext& ctx, const TensorView& latent, std::int64_t strip_elements = kStripElements) const;
  // f32 [H, W, 3] in [-1, 1] -> the mean, f32 [H/8, W/8, latent_channels]. H and W are multiples of 8.
  Tensor encode(ExecContext& ctx, const TensorView& image) const;

  // Bytes of the parameters kept in memory of their own (repacked convolutions), and of those read from the map.
  std::int64_t owned_bytes() const;
  std::int64_t mapped_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo::flux2_vae
