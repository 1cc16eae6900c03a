// A projection with what LoRAs add beside it. The weights stay as they are, whatever their format: nothing is merged, nothing is requantised.
#pragma once

#include <span>

#include "nn/linear.h"
#include "nn/rows.h"
#include "ops/epilogue.h"
#include "ops/exec_context.h"
#include "weights/lora.h"

namespace octavo::nn {

// y[m, first_row + n] += scale · Σ_r B[n,r] Σ_k A[r,k] x[m,k]   for each term, in their order
// x f32/bf16/f16 [M, K]: before smoothing, rotation and quantisation. Inner rows [M, r] stay float32, sums are float32. y f32/bf16/f16 [M, N], may be a
// slice of wider rows and must not alias x; a bf16 y is rounded after every term. Throws InvalidArgument on shapes, Unsupported
// on a GPU (not yet).
void add_lora(ExecContext& ctx, const TensorView& x, std::span<const LoraTerm> terms, const TensorView& y);

// Both are somebody else's and must outlive this; cheap to make, so that each request may bring its own LoRAs to the same weights.
class LoraLinear {
 public:
  LoraLinear(const Linear& base, std::span<const LoraTerm> terms) : base_(base), terms_(terms) {}

  // y = act( x Wᵀ + bias + terms ). Without terms it is base.forward. With terms x must be floats, and the epilogue may hold an activation alone, then
  // with y f32; that is the op silu instead of the epilogue, so a few last bits differ from the base's.
  void forward(ExecContext& ctx, const RowOutput& x, const Epilogue& epilogue, const TensorView& y) const;
  // y [M, 3 · heads · D]: the projection, then head_norm_rope (ops/rope/rope.h) of its first two thirds, q and k; in one kernel where there is one.
  void forward_heads(ExecContext& ctx, const RowOutput& x, const HeadNormRope& heads, const TensorView& y) const;
  // What forward wants to read: with terms floats, of which the base makes the same codes that a producer would have written.
  RowFormat input() const { return terms_.empty() ? base_.input() : RowFormat{}; }

 private:
  const Linear& base_;
  std::span<const LoraTerm> terms_;
};

}  // namespace octavo::nn
