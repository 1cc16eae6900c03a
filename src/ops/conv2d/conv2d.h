// Two-dimensional convolution, channels last.
#pragma once

#include <optional>
#include <string>

#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo {

struct ConvWeights {
  std::string name{};                // checkpoint name, for messages
  TensorView weight{};               // f32/bf16/f16 [Cout, kh, kw, Cin]: channels last, repacked from OIHW at load
  std::optional<TensorView> bias{};  // f32/bf16/f16 [Cout]
};

struct ConvArgs {
  int stride = 1;
  int pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;  // zeros
  bool upsample_nearest_2x = false;                              // reads x as if every pixel were doubled in both directions first (x itself is not enlarged)
};

// y[i,j,o] = bias[o] + Σ_{a,b,c} x[i·stride + a - pad_top, j·stride + b - pad_left, c] · w[o,a,b,c]  (+ residual[i,j,o])
// x f32/bf16/f16 [H, W, Cin], y [H', W', Cout] with H' = (H_in + pads - kh)/stride + 1; residual like y or absent.
// Float32 inside. A pixel does not depend on the number of threads.
void conv2d(ExecContext& ctx, const TensorView& x, const ConvWeights& w, const ConvArgs& args, const std::optional<TensorView>& residual, const TensorView& y);

}  // namespace octavo
