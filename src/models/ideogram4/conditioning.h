// What does not change from step to step: text rows, RoPE tables, and the modulation rows of all steps. spec sections 3.2, 3.5, 14
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "device/graph.h"
#include "models/ideogram4/dit.h"
#include "models/ideogram4/params.h"
#include "nn/linear.h"
#include "nn/lora.h"

namespace octavo::ideogram4 {

inline constexpr std::int64_t kTextRowsPerPanel = 128;  // 53 248 features a row: 27 MB at a time instead of 436 MB for 2 048 tokens

class SessionState final : public Session {
 public:
  const Config* owner = nullptr;  // of the denoiser that prepared it
  std::int64_t text_rows = 0;
  std::int64_t image_rows = 0;
  int steps = 0;
  Tensor text{};                    // [T, D] after llm_cond_proj and the text row of the indicator, in the residual dtype
  Tensor cos{}, sin{};              // f32 [S, head_dim / 2]
  Tensor modulation{};              // f32 [steps, layers * 4D]
  Tensor final_scale{};             // f32 [steps, D]
  Tensor current{};                 // f32 [layers * 4D + D], on a GPU: one step's rows, where a recorded forward pass finds them. See select_step
  nn::PlacedLoras placed_loras{};   // on a GPU
  const LoraTerms* lora = nullptr;  // those, or on the CPU the caller's, who keeps them as long as this session; null: none

  std::int64_t rows() const { return text_rows + image_rows; }
  // f32 [4D] and f32 [D] of a step; on a GPU always of the step selected last.
  TensorView modulation_row(int layer, int step) const;
  TensorView final_scale_row(int step) const;
  // Enqueues the copy of a step's rows to `current`; nothing to do on the CPU.
  void select_step(ExecContext& ctx, int step) const;

  // A forward pass recorded on a GPU, and what it was recorded for: the addresses that it reads, writes and keeps its scratch at.
  struct Recording {
    const void* latents = nullptr;
    const void* velocity = nullptr;
    const void* scratch_start = nullptr;
    const Arena* scratch = nullptr;
    std::size_t scratch_used = 0, scratch_block = 0, scratch_peak = 0;
    bool operator==(const Recording&) const = default;
  };
  mutable Recording ran{};  // the pass that ran last, with all its scratch allocated: the next like it can be recorded
  mutable Graph graph{};    // recorded for `ran`
  // A projection as this session runs it. Names as in lora_targets.
  nn::LoraLinear with_lora(const nn::Linear& linear, std::string_view projection) const;
  nn::LoraLinear with_lora(const nn::Linear& linear, int layer, std::string_view projection) const;
};

struct Grid {
  int height = 0;
  int width = 0;
};

// The frequencies' axes (0 t, 1 h, 2 w): h takes k = 1, 4, ... below 3 section[1], w takes k = 2, 5, ... below 3 section[2], t the rest.
// section[0] is ignored, as in the reference.
std::vector<int> rope_axes(std::span<const int> mrope_section, int head_dim);
// (i, i, i) for text row i, then (65536, 65536 + y, 65536 + x) row-major. f32 [T + h * w, 3]
Tensor packed_positions(std::int64_t text_rows, Grid grid);

class Conditioning {
 public:
  // `use`: of layers outside the blocks.
  Conditioning(ExecContext& ctx, const WeightStore& store, const Config& config, const Names& names, bool has_text, const nn::LinearUse& use);

  std::unique_ptr<Session> prepare(ExecContext& ctx, const Precision& precision, Grid grid, const std::optional<TensorView>& features,
                                   std::span<const float> times, const LoraTerms* lora) const;

  std::int64_t owned_bytes() const;
  std::int64_t mapped_bytes() const;

 private:
  void project_text(ExecContext& ctx, const TensorView& features, const SessionState& state) const;
  void modulate(ExecContext& ctx, std::span<const float> times, SessionState& state) const;
  std::vector<const nn::Linear*> linears() const;

  const WeightStore& store_;
  const Config& config_;
  bool has_text_ = false;
  std::vector<Tensor> owned_{};
  TensorView text_norm_{};
  nn::Linear text_proj_{};
  nn::Linear time_in_{}, time_out_{}, adaln_proj_{};
  std::vector<nn::Linear> block_modulation_{};
  nn::Linear final_modulation_{};
};

}  // namespace octavo::ideogram4
