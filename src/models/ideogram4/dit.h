// The denoiser of Ideogram 4: a single-stream transformer over text and image tokens. spec section 3
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/exec_context.h"
#include "quant/precision.h"
#include "tensor/tensor.h"
#include "weights/lora.h"

namespace octavo::nn {
class BlockStream;
}

namespace octavo::ideogram4 {

struct Config {
  int layers = 0;
  int heads = 0;
  int head_dim = 0;
  int intermediate = 0;
  int adaln = 0;
  int in_channels = 0;
  int llm_features = 0;
  double rope_theta = 0;
  std::vector<int> mrope_section{};  // (t, h, w)
  float norm_eps = 0;

  int hidden() const { return heads * head_dim; }
  // From the component's config.json. Throws DataError / InvalidArgument as the text encoder's does.
  static Config read(const std::filesystem::path& folder);
};

// Everything about one picture size and prompt that does not change from step to step: the text rows after llm_cond_proj,
// the RoPE table, the modulation rows of every step.
class Session;

// Where the weights of a denoiser are while it is used. On the device, unless said otherwise.
struct DitResidency {
  nn::BlockStream* stream = nullptr;  // somebody else's; must outlive the denoiser and be started before its first forward()
  int streamed_layers = 0;            // this many (nn::is_streamed_layer) have their projections in `stream`
  bool keeps_conditioning = true;     // else what only prepare() reads is loaded by every prepare() and leaves with it
};

class Dit {
 public:
  // Fused official names and split diffusers names are both accepted. Block linears follow `precision`, everything else is as stored.
  // Names may stand under "model.diffusion_model." or "diffusion_model.". Extra tensors are reported through the observer.
  // Any dialect that WeightStore reads; a quantised file in the folder above, with both branches, is laid over these weights.
  // `component`: "transformer" or "unconditional_transformer"; stands in messages, and one that starts with "unconditional" never reads
  // llm_cond_norm and llm_cond_proj, which may then be missing.
  // Throws InvalidArgument if the folder is missing or of another family, DataError if a tensor is missing or disagrees with config.json.
  Dit(ExecContext& ctx, const std::filesystem::path& folder, std::string component, const Precision& precision, const DitResidency& residency = {});
  ~Dit();
  Dit(Dit&&) noexcept;

  const Config& config() const;

  // grid_h * grid_w image tokens; `features` f32 [T, llm_features] or absent (the unconditional branch); `times` the model times (0 noise, 1 data)
  // of all steps. Where the residual stream is bf16 the times are rounded to bf16 first, as the reference does (numerics.md section 10).
  // `lora`: terms for lora_targets (params.h), or null; they act in this session alone and must outlive it.
  // The session belongs to this object and may be used for many pictures. Throws InvalidArgument on shapes, or on features for an unconditional one.
  std::unique_ptr<Session> prepare(ExecContext& ctx, int grid_h, int grid_w, const std::optional<TensorView>& features, std::span<const float> times,
                                   const LoraTerms* lora = nullptr) const;

  // velocity = dz/dt (data - noise) at times[step].  latents f32 [L, in_channels] (token layout) to velocity f32 [L, in_channels].
  // Throws Cancelled if the observer asks, between layers.
  void forward(ExecContext& ctx, const Session& session, int step, const TensorView& latents, const TensorView& velocity) const;

  // Bytes of the parameters this object keeps in memory of its own (quantised copies), and of those it reads from the map.
  std::int64_t owned_bytes() const;
  std::int64_t mapped_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class Session {
 public:
  virtual ~Session() = default;
};

}  // namespace octavo::ideogram4
