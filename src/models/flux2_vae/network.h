// One of the autoencoder's two networks with its weights: convolutions, resnets, one attention, over maps [H, W, C]. spec section 9.2, 9.3
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/flux2_vae/params.h"
#include "nn/linear.h"
#include "ops/conv2d/conv2d.h"
#include "ops/group_norm/group_norm.h"

namespace octavo::flux2_vae {

// What a norm bounds, the convolution of that included, and what nothing bounds: the maps that residuals add up in. `rows` is never wider.
struct MapTypes {
  DType rows = DType::f32, residual = DType::f32;
};

// The maps that a network works on: three buffers, each large enough for the largest map, taking turns.
// Own memory, not the scratch arena: at 2048 pixels they are gigabytes that should leave with the picture.
class Maps {
 public:
  Maps(const MapTypes& types, std::int64_t largest_elements, Device device);

  const TensorView& current() const { return current_; }
  // The map [h, w, c] in one of the two buffers that `current` does not use, index 0 or 1; or in the buffer of `current` itself. bounded: of type `rows`.
  TensorView spare(int index, std::int64_t h, std::int64_t w, std::int64_t c);
  TensorView bounded(int index, std::int64_t h, std::int64_t w, std::int64_t c);
  TensorView overwrite(std::int64_t h, std::int64_t w, std::int64_t c);
  // The map becomes the current one.
  void advance(const TensorView& map);

 private:
  std::size_t index_of(const TensorView& map) const;
  TensorView spare_as(DType dtype, int index, std::int64_t h, std::int64_t w, std::int64_t c) const;

  MapTypes types_{};
  std::vector<Tensor> buffers_{};
  TensorView current_{};
};

// Elements of the largest map that a network needs whose input is h x w, before its first or behind its last change of resolution.
std::int64_t largest_map(const NetworkSpec& spec, std::int64_t h, std::int64_t w, bool grows);

class Network {
 public:
  // Repacks every k x k convolution from OIHW to [Cout, kh, kw, Cin] in its stored dtype and releases the file's pages; the rest stays in the map.
  // On a GPU everything is copied there, matrices and filters rounded to `types.rows`, so that both sides of a product have one type.
  Network(ExecContext& ctx, const WeightStore& store, const NetworkSpec& spec, const Config& config, const MapTypes& types);

  std::int64_t owned_bytes() const { return owned_bytes_; }
  std::int64_t mapped_bytes() const { return mapped_bytes_; }

 protected:
  const MapTypes& types() const { return types_; }
  struct Resnet {
    GroupNormArgs norm1{}, norm2{};
    ConvWeights conv1{}, conv2{};
    std::optional<ConvWeights> shortcut{};
  };
  struct MidAttention {
    GroupNormArgs norm{};
    nn::Linear qkv{}, out{};
    std::int64_t channels = 0;
  };
  struct Stage {
    std::vector<Resnet> resnets{};
    std::optional<ConvWeights> resample{};
  };

  void run(ExecContext& ctx, const Resnet& resnet, Maps& maps) const;
  void run_middle(ExecContext& ctx, Maps& maps) const;
  void run_out(ExecContext& ctx, Maps& maps, const TensorView& y) const;
  std::int64_t largest_map(std::int64_t h, std::int64_t w, bool grows) const { return octavo::flux2_vae::largest_map(spec_, h, w, grows); }

  std::optional<ConvWeights> quant_conv_{};
  ConvWeights conv_in_{}, conv_out_{};
  std::vector<Resnet> middle_{};
  std::optional<MidAttention> attention_{};
  std::vector<Stage> stages_{};
  GroupNormArgs norm_out_{};

 private:
  ConvWeights load_conv(ExecContext& ctx, const WeightStore& store, const ConvSpec& spec);
  GroupNormArgs load_norm(ExecContext& ctx, const WeightStore& store, const std::string& module, int groups, bool silu);
  Resnet load_resnet(ExecContext& ctx, const WeightStore& store, const ResnetSpec& spec, int groups);
  void attend(ExecContext& ctx, Maps& maps) const;

  NetworkSpec spec_{};
  std::vector<Tensor> owned_{};
  MapTypes types_{};
  std::int64_t owned_bytes_ = 0;
  std::int64_t mapped_bytes_ = 0;
};

class Decoder : public Network {
 public:
  using Network::Network;
  // latent f32 [h, w, latent_channels] -> f32 [h * scale, w * scale, 3], both on the CPU
  Tensor run(ExecContext& ctx, const TensorView& latent) const;
};

class Encoder : public Network {
 public:
  using Network::Network;
  // image f32 [H, W, 3] -> mean f32 [H / scale, W / scale, latent_channels]
  Tensor run(ExecContext& ctx, const TensorView& image) const;
};

}  // namespace octavo::flux2_vae
