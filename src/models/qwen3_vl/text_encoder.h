// The language tower of Qwen3-VL as a text encoder: token ids to interleaved intermediate states. spec section 6
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "ops/exec_context.h"
#include "quant/precision.h"
#include "tensor/tensor.h"

namespace octavo::qwen3_vl {

struct Config {
  int hidden = 0;
  int layers = 0;
  int intermediate = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  std::int64_t vocabulary = 0;
  double rope_theta = 0;
  float norm_eps = 0;

  // From the component's config.json; accepts rope_theta beside the others or in rope_parameters, and a nested text_config.
  // Throws DataError naming the field that is missing or out of range, InvalidArgument if it is another model family.
  static Config read(const std::filesystem::path& folder);
};

// On a GPU: all layers there from the beginning, or one after another, each loaded for its turn in encode() and gone behind it. A prompt is encoded once, so
// both bring the same bytes there.
enum class TextResidency : std::uint8_t { whole, one_layer };

class TextEncoder {
 public:
  // `taps`: the decoder layers whose output is kept, ascending, each < layers; layers behind the last one are not read.
  // Names may stand under "language_model.", "model.language_model." or "model."; visual.* and the final norm are never read.
  // Computes in float32, or in rows of 16 bits if `precision` is bf16 or fp16 (numerics.md section 10). w8a8 quantises the denoiser only: here it computes as
  // f32. Throws InvalidArgument on taps, a missing folder or another family, DataError if a tensor is missing or disagrees with config.json.
  TextEncoder(ExecContext& ctx, const std::filesystem::path& folder, std::vector<int> taps, const Precision& precision,
              TextResidency residency = TextResidency::whole);
  ~TextEncoder();
  TextEncoder(TextEncoder&&) noexcept;

  const Config& config() const;
  int feature_columns() const;  // hidden * taps

  // F[i][h * taps + k] = output of layer taps[k] for token i, unit h (no final norm). ids [T] to f32 [T, hidden * taps].
  // Throws InvalidArgument on an id outside the vocabulary, Cancelled if the observer asks.
  Tensor encode(ExecContext& ctx, std::span<const std::int32_t> ids) const;

  // Bytes of the parameters read from the map (those of layers that are loaded now).
  std::int64_t mapped_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo::qwen3_vl
