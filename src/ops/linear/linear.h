// The projection y = x Wᵀ + bias, in float and in W8A8.
#pragma once

#include <optional>
#include <string>

#include "ops/epilogue.h"
#include "ops/exec_context.h"
#include "quant/precision.h"
#include "quant/quantize.h"
#include "tensor/tensor.h"

namespace octavo {

// One projection's parameters. Views: somebody else (weights) owns the memory.
struct LinearWeights {
  std::string name{};                 // checkpoint name, for messages
  TensorView weight{};                // [N, K] row-major: f32, bf16, f16, or s8
  std::optional<TensorView> scale{};  // f32 [N], present exactly when weight is s8: real = scale * q
  std::optional<TensorView> bias{};   // f32, bf16 or f16 [N]
  int rotation_group = 0;             // ConvRot group that the s8 weight was rotated with; 0: none
  bool rounds_x = false;              // beside a float16 weight a GPU may round wider rows to float16, each after a power of two
  RowSmoothing smoothing{};           // what the rows for the s8 weight go through before their rotation (quantize_rows); no product looks at it

  std::int64_t out_features() const { return weight.shape[0]; }
  std::int64_t in_features() const { return weight.shape[1]; }
};

// Projects rows of x through a float weight. Every activation but silu_mul.
//   y[m,n] = epilogue( Σ_k x[m,k] · w[n,k] + bias[n] )            accumulated in float32, K never split
// x f32/bf16/f16 [M,K], w f32/bf16/f16 [N,K], y f32/bf16/f16 [M,N]; rows may be strided. y must not alias x.
// A row of y depends on its row of x alone, not on M or on the number of threads.
// Throws InvalidArgument on shapes and dtypes, Unsupported if no kernel exists for the device.
void linear(ExecContext& ctx, const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y);

// Projects quantised rows through an INT8 weight.
//   y[m,n] = epilogue( ((float(acc) · x.scale[m]) · w.scale[n]) + bias[n] ),  acc = Σ_k x.q[m,k] · w.q[n,k]     numerics.md sections 4, 5
// x.q s8 [M,K], x.scale f32 [M]; w s8 [N,K], w.scale f32 [N]; y f32/bf16/f16 [M,N], or [M,N/2] for silu_mul; rows may be strided. acc is int32, exact.
// Throws InvalidArgument on shapes, on a rotation that differs between x and w, and on K > 133 144 (the sum could overflow).
void linear(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y);

// The same through a weight whose rows alternate, as silu_mul wants them, with each half of the outputs side by side:
//   y[m, h N/2 + n] = (float(acc) · x.scale[m]) · w.scale[2n + h],  acc = Σ_k x.q[m,k] · w.q[2n + h, k],  h = 0, 1     y [M,N]
// Throws as linear does, and InvalidArgument if N is odd or there is a bias.
void linear_halves(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const TensorView& y);

// The int32 sums alone, for tests and tools:  acc[m,n] = Σ_k x[m,k] · w[n,k],  x s8 [M,K], w s8 [N,K], acc s32 [M,N].
void linear_accumulate(ExecContext& ctx, const TensorView& x, const TensorView& w, const TensorView& acc);

}  // namespace octavo
