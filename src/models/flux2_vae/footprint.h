// What the autoencoder's decoder takes on a device, told before anything is loaded. A test holds it to what decode() allocates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "models/flux2_vae/params.h"
#include "models/flux2_vae/vae.h"
#include "nn/footprint.h"
#include "quant/precision.h"

namespace octavo::flux2_vae {

class DecoderFootprint {
 public:
  // Reads the headers of the checkpoint. Throws as Vae does.
  DecoderFootprint(const std::filesystem::path& folder, const Precision& precision);

  const nn::Footprint& weights() const { return weights_; }  // on a GPU
  // Of a picture from a latent of h x w: the block of maps, the strips, a float16 copy of what convolutions read, the latent, the picture.
  nn::Footprint maps(std::int64_t latent_h, std::int64_t latent_w, std::int64_t strip_elements = kStripElements) const;

 private:
  bool is_of_attention(std::string_view name) const;  // a projection's weight or bias, planned as nn::Linear

  Config config_{};
  DType rows_ = DType::f32, residual_ = DType::f32;
  NetworkSpec spec_{};
  nn::Footprint weights_{};
};

}  // namespace octavo::flux2_vae
