#include "pipeline/model_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/flux2_vae/footprint.h"
#include "models/ideogram4/footprint.h"
#include "models/qwen3_vl/footprint.h"
#include "octavo/error.h"
#include "weights/weight_store.h"

namespace octavo {
namespace {

std::vector<std::int64_t> allocated(const std::vector<nn::Footprint>& parts) {
  std::vector<std::int64_t> bytes;
  for (const nn::Footprint& part : parts) bytes.push_back(part.allocated_bytes);
  return bytes;
}

ResidencyWeights::Denoiser denoiser_weights(const ideogram4::DitFootprint& dit) {
  return {.layers = allocated(dit.layers()), .conditioning = dit.conditioning().allocated_bytes, .rest = dit.rest().allocated_bytes};
}

std::int64_t in_units(std::int64_t bytes) {
  nn::Footprint footprint;
  footprint.add_tensor(bytes);
  return footprint.allocated_bytes;
}

}  // namespace

Precision stored_precision(const ModelIndex& index, int sm) {
  if (WeightStore(index.component("transformer"), "transformer").has_int8()) return precision::w8a8;
  return precision::has_bf16(sm) ? precision::bf16 : precision::fp16;
}

struct ModelMemory::Impl {
  Device device;
  qwen3_vl::TextFootprint text;
  ideogram4::DitFootprint cond, uncond;
  flux2_vae::Config vae_config;
  flux2_vae::DecoderFootprint vae;
  ResidencyWeights weights{};

  Impl(const ModelIndex& index, const Precision& precision, const Precision& plain, Device where)
      : device(where),
        text(index.component("text_encoder"), index.taps, plain),
        cond(index.component("transformer"), "transformer", precision),
        uncond(index.component("unconditional_transformer"), "unconditional_transformer", precision),
        vae_config(flux2_vae::Config::read(index.component("vae"))),
        vae(index.component("vae"), plain) {
    weights.text_layers = allocated(text.layers());
    weights.cond = denoiser_weights(cond);
    weights.uncond = denoiser_weights(uncond);
    weights.autoencoder = vae.weights().allocated_bytes;
    weights.place = in_units(std::max(cond.largest_streamed_bytes(), uncond.largest_streamed_bytes()));
  }

  int token_pixels() const { return vae_config.scale() * vae_config.patch; }
};

ModelMemory::ModelMemory(const ModelIndex& index, const Precision& precision, const Precision& plain, Device device)
    : impl_(std::make_unique<Impl>(index, precision, plain, device)) {}
ModelMemory::~ModelMemory() = default;
ModelMemory::ModelMemory(ModelMemory&&) noexcept = default;

int ModelMemory::token_pixels() const { return impl_->token_pixels(); }

int ModelMemory::head_dim() const { return impl_->cond.config().head_dim; }

const ResidencyWeights& ModelMemory::weights() const { return impl_->weights; }

ResidencyRows ModelMemory::rows(const PictureMemory& picture) const {
  const Impl& m = *impl_;
  const std::int64_t tokens = std::int64_t(picture.width / m.token_pixels()) * (picture.height / m.token_pixels());
  const ideogram4::PictureSize with_text{
      .text_rows = picture.text_tokens, .image_rows = tokens, .steps = picture.steps, .attention = picture.attention, .lora = picture.cond_lora};
  const ideogram4::PictureSize without_text{.image_rows = tokens, .steps = picture.steps, .attention = picture.attention, .lora = picture.uncond_lora};
  nn::Footprint sessions = m.cond.session(m.device, with_text);
  sessions += m.uncond.session(m.device, without_text);
  nn::Footprint loras = m.cond.placed_loras(with_text);
  loras += m.uncond.placed_loras(without_text);
  nn::Footprint latents;
  for (int i = 0; i < 3; ++i) latents.add_tensor(DType::f32, {tokens, m.cond.config().in_channels});
  const int scale = m.vae_config.scale();
  return {.text_scratch = m.text.scratch_bytes(m.device, picture.text_tokens),
          .text_tables = m.text.placed_tables(picture.text_tokens).allocated_bytes,
          .features = m.cond.placed_features(with_text).allocated_bytes,
          .prepare_scratch = std::max(m.cond.prepare_scratch_bytes(m.device, with_text), m.uncond.prepare_scratch_bytes(m.device, without_text)),
          .denoise_scratch = std::max(m.cond.forward_scratch_bytes(m.device, with_text), m.uncond.forward_scratch_bytes(m.device, without_text)),
          .sessions = sessions.allocated_bytes,
          .loras = loras.allocated_bytes,
          .latents = latents.allocated_bytes,
          .maps = m.vae.maps(picture.height / scale, picture.width / scale).allocated_bytes};
}

ResidencyPlan ModelMemory::plan(std::string_view who, const PictureMemory& picture, std::int64_t budget, const std::optional<ResidencyChoice>& loaded) const {
  const ResidencyRows wanted = rows(picture);
  if (loaded) {
    ResidencyPlan kept = evaluate_residency(weights(), wanted, *loaded, budget);
    if (fits_budget(kept, budget)) return with_second_branch(kept, budget);
  }
  if (std::optional<ResidencyPlan> found = plan_residency(weights(), wanted, budget)) return with_second_branch(*found, budget);

  const std::int64_t least = smallest_budget(weights(), wanted);
  const int unit = impl_->token_pixels(), shares = std::max(picture.width, picture.height) / unit;
  std::string smaller;
  for (int share = shares - 1; share > 0 && smaller.empty(); --share) {
    PictureMemory candidate = picture;
    candidate.width = std::max(unit, picture.width / unit * share / shares * unit);
    candidate.height = std::max(unit, picture.height / unit * share / shares * unit);
    if (smallest_budget(weights(), rows(candidate)) <= budget) smaller = fmt::format(", or draw {}x{}", candidate.width, candidate.height);
  }
  throw OutOfMemory(
      fmt::format("{}: {}x{} with {} steps and {} text tokens does not fit into {} of GPU memory, even with every layer streamed: at least {} are "
                  "needed ({} of them stay free as a margin); use --vram {} or more{}{}",
                  who, picture.width, picture.height, picture.steps, picture.text_tokens, memory_size_text(budget), memory_size_text(least),
                  memory_size_text(kMarginBytes), memory_size_word(least), smaller, smaller.empty() ? "; no smaller picture fits either" : ""));
}

std::int64_t free_budget(Device device) {
  if (device.is_cpu()) return 0;
  const GpuList list = list_gpus();
  return device.index < int(list.gpus.size()) ? list.gpus[std::size_t(device.index)].free_bytes + kRuntimeBytes : 0;
}

}  // namespace octavo
