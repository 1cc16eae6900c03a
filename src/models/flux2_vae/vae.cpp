#include "models/flux2_vae/vae.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "models/checkpoint.h"
#include "models/flux2_vae/latent_statistics.h"
#include "models/flux2_vae/network.h"
#include "models/flux2_vae/params.h"
#include "octavo/error.h"

namespace octavo::flux2_vae {
namespace {

constexpr std::string_view kComponent = "vae";

// z_vae = z * scale + shift, per token channel.
struct LatentStatistics {
  std::vector<float> scale{}, shift{};
};

std::optional<LatentStatistics> stored_statistics(const WeightStore& store, const Config& config) {
  if (!store.has("bn.running_mean") || !store.has("bn.running_var")) return std::nullopt;
  const Tensor mean = to_float_tensor(store.get("bn.running_mean"));
  const Tensor variance = to_float_tensor(store.get("bn.running_var"));
  LatentStatistics statistics;
  for (int k = 0; k < config.token_channels(); ++k) {
    statistics.shift.push_back(mean.as<float>()[k]);
    statistics.scale.push_back(std::sqrt(variance.as<float>()[k] + float(config.batch_norm_eps)));
  }
  return statistics;
}

// The most that two statistics differ in a channel, as a share of the channel's spread.
double disagreement(const LatentStatistics& a, const LatentStatistics& b) {
  double worst = 0;
  for (std::size_t k = 0; k < a.scale.size(); ++k) {
    worst = std::max({worst, std::fabs(double(a.scale[k]) / b.scale[k] - 1), std::fabs(double(a.shift[k]) - b.shift[k]) / b.scale[k]});
  }
  return worst;
}

LatentStatistics choose_statistics(const ExecContext& ctx, const WeightStore& store, const Config& config) {
  const std::optional<LatentStatistics> stored = stored_statistics(store, config);
  if (config.token_channels() != kPublishedChannels) return *stored;
  LatentStatistics published;
  published.scale.assign(kPublishedScale.begin(), kPublishedScale.end());
  published.shift.assign(kPublishedShift.begin(), kPublishedShift.end());
  // 1 %: bf16 storage of mean and variance accounts for 0.4 %, other trainings of this autoencoder differ by 5 % and more (spec section 9.4).
  constexpr double kTolerance = 0.01;
  if (stored && disagreement(*stored, published) > kTolerance) {
    models::advise(
        ctx, fmt::format("vae: the file's bn statistics differ by up to {:.0f} % from those that this model was trained with; the published ones are used",
                         100 * disagreement(*stored, published)));
  }
  return published;
}

}  // namespace

struct Vae::Impl {
  Config config;
  WeightStore store;
  MapTypes types;
  Names names;
  LatentStatistics statistics{};
  std::unique_ptr<Decoder> decoder{};
  std::once_flag encoder_once{};
  std::unique_ptr<Encoder> encoder{};  // loaded by the first encode(): a picture from text alone never reads it

  Impl(ExecContext& ctx, const std::filesystem::path& folder, const MapTypes& maps)
      : config(Config::read(folder)), store(folder, std::string(kComponent)), types(maps), names(Names::find(store)) {
    std::vector<ParamSpec> specs = decoder_spec(config, names).parameters();
    for (const auto& more : {encoder_spec(config, names).parameters(), statistics_parameters(config)}) specs.insert(specs.end(), more.begin(), more.end());
    constexpr std::string_view kUnread[] = {"bn.num_batches_tracked"};
    models::check_parameters(ctx, store, specs, kUnread);
    statistics = choose_statistics(ctx, store, config);
    decoder = std::make_unique<Decoder>(ctx, store, decoder_spec(config, names), config, types);
  }

  void check_tokens(const TensorView& tokens) const {
    if (tokens.shape.rank() == 2 && tokens.columns() == config.token_channels() && tokens.dtype == DType::f32) return;
    throw InvalidArgument(fmt::format("vae: tokens are {} {}, f32 [L, {}] is needed", name_of(tokens.dtype), tokens.shape.text(), config.token_channels()));
  }
  void check_map(const TensorView& map, std::string_view what, int channels, int multiple) const {
    const bool fits = map.shape.rank() == 3 && map.shape[2] == channels && map.dtype == DType::f32 && map.is_dense() && map.shape.elements() > 0;
    if (fits && map.shape[0] % multiple == 0 && map.shape[1] % multiple == 0) return;
    throw InvalidArgument(fmt::format("vae: {} is {} {}; f32 [H, W, {}] with sides that are multiples of {} is needed", what, name_of(map.dtype),
                                      map.shape.text(), channels, multiple));
  }
};

Vae::Vae(ExecContext& ctx, const std::filesystem::path& folder, const Precision& precision)
    : impl_(std::make_unique<Impl>(ctx, folder, MapTypes{precision.rows, precision.residual})) {}
Vae::~Vae() = default;
Vae::Vae(Vae&&) noexcept = default;

const Config& Vae::config() const { return impl_->config; }

void Vae::denormalize(ExecContext& ctx, const TensorView& tokens) const {
  impl_->check_tokens(tokens);
  const LatentStatistics& statistics = impl_->statistics;
  ctx.pool->for_each(tokens.rows(), [&](std::int64_t i) {
    float* z = tokens.row<float>(i);
    for (std::size_t k = 0; k < statistics.scale.size(); ++k) z[k] = z[k] * statistics.scale[k] + statistics.shift[k];
  });
}

void Vae::normalize(ExecContext& ctx, const TensorView& tokens) const {
  impl_->check_tokens(tokens);
  const LatentStatistics& statistics = impl_->statistics;
  ctx.pool->for_each(tokens.rows(), [&](std::int64_t i) {
    float* z = tokens.row<float>(i);
    for (std::size_t k = 0; k < statistics.scale.size(); ++k) z[k] = (z[k] - statistics.shift[k]) / statistics.scale[k];
  });
}

Tensor Vae::unpatchify(const TensorView& tokens, int grid_h, int grid_w) const {
  impl_->check_tokens(tokens);
  const std::int64_t patch = impl_->config.patch, channels = impl_->config.latent_channels;
  if (tokens.rows() != std::int64_t(grid_h) * grid_w)
    throw InvalidArgument(fmt::format("vae: {} tokens do not fill a grid of {} x {}", tokens.rows(), grid_h, grid_w));
  Tensor latent(DType::f32, {grid_h * patch, grid_w * patch, channels}, {}, "latent");
  for (std::int64_t token = 0; token < tokens.rows(); ++token) {
    for (std::int64_t part = 0; part < patch * patch; ++part) {
      const std::int64_t y = token / grid_w * patch + part / patch, x = token % grid_w * patch + part % patch;
      std::memcpy(latent.as<float>() + (y * grid_w * patch + x) * channels, tokens.row<float>(token) + part * channels, std::size_t(channels) * sizeof(float));
    }
  }
  return latent;
}

Tensor Vae::patchify(const TensorView& latent) const {
  const std::int64_t patch = impl_->config.patch, channels = impl_->config.latent_channels;
  impl_->check_map(latent, "the latent", int(channels), int(patch));
  const std::int64_t grid_h = latent.shape[0] / patch, grid_w = latent.shape[1] / patch;
  Tensor tokens(DType::f32, {grid_h * grid_w, channels * patch * patch}, {}, "latent tokens");
  for (std::int64_t token = 0; token < grid_h * grid_w; ++token) {
    for (std::int64_t part = 0; part < patch * patch; ++part) {
      const std::int64_t y = token / grid_w * patch + part / patch, x = token % grid_w * patch + part % patch;
      std::memcpy(tokens.view().row<float>(token) + part * channels, latent.as<float>() + (y * grid_w * patch + x) * channels,
                  std::size_t(channels) * sizeof(float));
    }
  }
  return tokens;
}

Tensor Vae::decode(ExecContext& ctx, const TensorView& latent, std::int64_t strip_elements) const {
  impl_->check_map(latent, "the latent", impl_->config.latent_channels, 1);
  return impl_->decoder->run(ctx, latent, strip_elements);
}

Tensor Vae::encode(ExecContext& ctx, const TensorView& image) const {
  impl_->check_map(image, "the picture", impl_->config.image_channels, impl_->config.scale());
  std::call_once(impl_->encoder_once, [&] {
    impl_->encoder = std::make_unique<Encoder>(ctx, impl_->store, encoder_spec(impl_->config, impl_->names), impl_->config, impl_->types);
  });
  return impl_->encoder->run(ctx, image);
}

std::int64_t Vae::owned_bytes() const { return impl_->decoder->owned_bytes() + (impl_->encoder ? impl_->encoder->owned_bytes() : 0); }

std::int64_t Vae::mapped_bytes() const { return impl_->decoder->mapped_bytes() + (impl_->encoder ? impl_->encoder->mapped_bytes() : 0); }

}  // namespace octavo::flux2_vae
