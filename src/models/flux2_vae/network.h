// One of the autoencoder's two networks with its weights: convolutions, resnets, one attention, over maps [H, W, C]. spec section 9.2, 9.3
#pragma once

#include <functional>
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

// Elements of the memory that a network needs whose input is h x w, from the list of its layers.
struct MapSizes {
  std::int64_t block = 0;
  std::int64_t strips[2] = {0, 0};
  std::int64_t read = 0;                         // the largest map, or strip, of type `residual` that a convolution reads
  std::int64_t strip_elements = kStripElements;  // what was asked for
};
MapSizes map_sizes(const NetworkSpec& spec, std::int64_t h, std::int64_t w, bool grows, std::int64_t strip_elements);

// The maps that a network works on: the current one at one end of a block, what a layer makes of it at the other end; and two strips, the first of them
// bounded. Own memory, not the scratch arena: at 2048 pixels they are gigabytes that should leave with the picture.
class Maps {
 public:
  Maps(const MapTypes& types, const MapSizes& sizes, Device device);

  const TensorView& current() const { return current_; }
  // The map [h, w, c] at the end that `current` does not use, behind `behind` elements of another one there.
  TensorView other(std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t behind = 0) const;
  // The place of that map for one that a norm bounds.
  TensorView bounded(const TensorView& map) const { return {map.data, types_.rows, map.shape, map.device}; }
  // What other() gave becomes the current map.
  void advance(const TensorView& map);
  TensorView strip(std::size_t index, std::int64_t h, std::int64_t w, std::int64_t c) const;
  std::int64_t strip_elements() const { return strip_elements_; }

  // What a map takes of the block: whole units, so that every map begins aligned.
  static std::int64_t padded(std::int64_t h, std::int64_t w, std::int64_t c);

 private:
  MapTypes types_;
  Tensor block_;
  Tensor strips_[2];
  std::int64_t strip_elements_;
  TensorView current_{};
  bool is_at_end_ = true;  // where the current map lies
};

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

  // Rows [first, first + count) of a map, ready until the next call.
  using Rows = std::function<TensorView(std::int64_t first, std::int64_t count)>;

  void run(ExecContext& ctx, const Resnet& resnet, Maps& maps) const;
  void run_upsampled(ExecContext& ctx, const ConvWeights& upsample, const Resnet& resnet, Maps& maps) const;
  void run_middle(ExecContext& ctx, Maps& maps) const;
  void run_out(ExecContext& ctx, Maps& maps, const TensorView& y) const;
  const NetworkSpec& spec() const { return spec_; }

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
  void convolve_normed(ExecContext& ctx, const Rows& x, std::int64_t channels, const GroupNormArgs& norm, const TensorView& statistics, const ConvWeights& conv,
                       const Maps& maps, const std::function<std::optional<TensorView>(std::int64_t, std::int64_t)>& residual, const TensorView& y) const;

  NetworkSpec spec_{};
  std::vector<Tensor> owned_{};
  MapTypes types_{};
  std::int64_t owned_bytes_ = 0;
  std::int64_t mapped_bytes_ = 0;
};

class Decoder : public Network {
 public:
  using Network::Network;
  // latent f32 [h, w, latent_channels] -> f32 [h * scale, w * scale, 3], both on the CPU. The strips do not show in the picture.
  Tensor run(ExecContext& ctx, const TensorView& latent, std::int64_t strip_elements) const;
};

class Encoder : public Network {
 public:
  using Network::Network;
  // image f32 [H, W, 3] -> mean f32 [H / scale, W / scale, latent_channels]
  Tensor run(ExecContext& ctx, const TensorView& image) const;
};

}  // namespace octavo::flux2_vae
