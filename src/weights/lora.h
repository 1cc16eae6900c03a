// LoRA files: pairs of thin matrices, whatever tool wrote them, and the places in a model where they act. spec section 10
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "tensor/tensor.h"

namespace octavo {

// Beside a projection y = x Wᵀ:  y += scale · (x Aᵀ) Bᵀ.
struct LoraPair {
  std::string module{};  // as the file names it, prefix included
  TensorView down{};     // A [r, K], f32, bf16 or f16: a window onto the file
  TensorView up{};       // B [N, r], likewise
  double scale = 1;      // alpha / r; 1 if the file says no alpha
  std::size_t keys = 2;  // tensors that it is made of
};

class LoraFile {
 public:
  // Pairs are "<module>.lora_A.weight" and ".lora_B.weight" (or ".lora_A.default.weight", ...), or ".lora_down.weight" and ".lora_up.weight", with or without
  // "<module>.alpha". Every number is looked at once. Throws as SafetensorsFile does; InvalidArgument if no pair is in the file; DataError if half of a pair is
  // missing, shapes do not meet or a number is not finite (with the tensor's name); Unsupported for DoRA, LoHa, LoKr, LoCon and for dtypes that are not plain
  // floats.
  explicit LoraFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::size_t keys() const { return file_.entries().size(); }
  std::span<const LoraPair> pairs() const { return pairs_; }           // sorted by module
  std::span<const std::string> other_keys() const { return others_; }  // tensors that belong to no pair

 private:
  SafetensorsFile file_;
  std::vector<LoraPair> pairs_{};
  std::vector<std::string> others_{};
};

// Outputs of a projection that a LoRA may change, under the name that files give them. Several targets may overlap: fused and split names.
struct LoraTarget {
  std::string module{};      // without prefix: "layers.3.attention.to_k"
  std::string projection{};  // what the model calls the projection that it runs: "layers.3.attention.qkv"
  std::int64_t first_row = 0;
  std::int64_t rows = 0;     // N of a pair for this target
  std::int64_t columns = 0;  // K
};

// A pair at its place: y[:, first_row + n] += scale · Σ_r B[n,r] Σ_k A[r,k] x[:,k].
struct LoraTerm {
  std::string module{};  // for messages
  TensorView down{}, up{};
  float scale = 1;
  std::int64_t first_row = 0;
};
using LoraTerms = std::map<std::string, std::vector<LoraTerm>, std::less<>>;  // by projection

// What of a file found its place. Views point into the file.
struct LoraFit {
  LoraTerms conditional{}, unconditional{};
  std::size_t keys_applied = 0;
  std::vector<std::string> left_over{};  // modules and tensors without a place
};

// Finds the place of every pair. Prefixes: none, "transformer.", "conditional_transformer.", "diffusion_model.", "model.diffusion_model." and kohya's
// "lora_unet_" with underscores for dots mean the conditional denoiser; "unconditional_transformer." means the other one.
// Throws InvalidArgument if the file was made for another model: fewer than half of its keys have a place (with the nearest names), or a pair's shape is
// not that of its place.
LoraFit fit_lora(const LoraFile& file, double strength, std::span<const LoraTarget> conditional, std::span<const LoraTarget> unconditional);

}  // namespace octavo
