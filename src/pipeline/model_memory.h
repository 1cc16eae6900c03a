// A model's sizes on a GPU, from configurations and file headers alone, and the plan that a request gets from them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "device/device.h"
#include "ops/exec_context.h"
#include "pipeline/model_index.h"
#include "pipeline/residency.h"
#include "quant/precision.h"
#include "weights/lora.h"

namespace octavo {

// What `auto` means on a GPU of that compute capability: w8a8 if the denoiser is stored in int8, else bf16, or fp16 where the GPU has no bf16.
Precision stored_precision(const ModelIndex& index, int sm);

struct PictureMemory {
  int width = 0, height = 0;
  int steps = 0;
  std::int64_t text_tokens = 0;
  AttentionKind attention = AttentionKind::automatic;
  const LoraTerms *cond_lora = nullptr, *uncond_lora = nullptr;  // null: none
};

class ModelMemory {
 public:
  // `precision` of the denoisers' layers, `plain` of everything else, both as the device runs them. Throws as the components do.
  ModelMemory(const ModelIndex& index, const Precision& precision, const Precision& plain, Device device);
  ~ModelMemory();
  ModelMemory(ModelMemory&&) noexcept;

  int token_pixels() const;  // per side
  int head_dim() const;      // of the denoisers
  const ResidencyWeights& weights() const;
  ResidencyRows rows(const PictureMemory& picture) const;

  // The plan for a picture; a choice that is loaded already is kept if it still fits. Throws OutOfMemory if nothing fits: what is needed, for what, the
  // smallest budget, the largest picture of the same form.
  ResidencyPlan plan(std::string_view who, const PictureMemory& picture, std::int64_t budget, const std::optional<ResidencyChoice>& loaded = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What a process may use when nobody names a budget: what is free on the device now, and what CUDA took already. 0 for the CPU.
std::int64_t free_budget(Device device);

}  // namespace octavo
