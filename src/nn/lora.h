// A projection with what LoRAs add beside it. The weights stay as they are, whatever their format: nothing is merged, nothing is requantised.
#pragma once

#include <span>

#include "nn/footprint.h"
#include "nn/linear.h"
#include "nn/rows.h"
#include "ops/epilogue.h"
#include "ops/exec_context.h"
#include "weights/lora.h"

namespace octavo::nn {

// Terms as ops on a GPU read them.
struct PlacedLoras {
  LoraTerms terms{};  // windows onto `memory`
  Tensor memory{};
};

// A and B of every term in one allocation on ctx.device, rounded to `floats` (f32, bf16, f16), ranks filled up with zeros to 16 bytes in
// 16 bits. Throws DataError if a number does not fit f16.
PlacedLoras place_loras(ExecContext& ctx, const LoraTerms& loras, DType floats);
// Of PlacedLoras::memory.
std::int64_t placed_lora_bytes(const LoraTerms& loras, DType floats);

// y[m, first_row + n] += scale · Σ_r B[n,r] Σ_k A[r,k] x[m,k]   for each term, in their order                              numerics.md section 11
// x f32/bf16/f16 [M, K]: before smoothing, rotation and quantisation. Inner rows [M, r] stay float32, sums are float32; on a GPU the inner rows of x and A of
// one 16-bit type are rounded to that, and wider x beside f16 A to f16. y f32/bf16/f16 [M, N], may be a slice of wider rows and must not alias x; a bf16 y is
// rounded after every term. On a GPU the terms are those of one projection in PlacedLoras. Throws InvalidArgument on shapes and on terms that lie elsewhere.
void add_lora(ExecContext& ctx, const TensorView& x, std::span<const LoraTerm> terms, const TensorView& y);
// Takes what add_lora() holds for `rows` rows of `x`, and gives it back. `terms` are those on the host, `floats` what they are placed in on a GPU.
void take_lora_scratch(ScratchCount& scratch, Device device, std::span<const LoraTerm> terms, std::int64_t rows, DType x, DType floats);

// Both are somebody else's and must outlive this; cheap to make, so that each request may bring its own LoRAs to the same weights.
class LoraLinear {
 public:
  LoraLinear(const Linear& base, std::span<const LoraTerm> terms) : base_(base), terms_(terms) {}

  // y = act( x Wᵀ + bias + terms ). Without terms it is base.forward. With terms x must be floats, and the epilogue may hold an activation alone, then
  // with y f32; that is the op silu instead of the epilogue, so a few last bits differ from the base's.
  void forward(ExecContext& ctx, const RowOutput& x, const Epilogue& epilogue, const TensorView& y) const;
  bool has_terms() const { return !terms_.empty(); }
  // What forward wants to read: with terms floats, of which the base makes the same codes that a producer would have written.
  RowFormat input() const { return terms_.empty() ? base_.input() : RowFormat{}; }

 private:
  const Linear& base_;
  std::span<const LoraTerm> terms_;
};

}  // namespace octavo::nn
