// What a W8A8 kernel is launched with: GemmProblem in plain words, by value in constant memory.
#pragma once

#include <cstdint>

#include "ops/linear/device/tile_order.h"

namespace octavo::device {

enum class Out : int { bf16, f16, f32, s32 };
enum class Finish : int { plain, gated_residual, silu_mul, silu };

struct GemmOperand {
  const std::int8_t* x;
  const std::int8_t* w;
  const float* x_scale;
  const float* w_scale;
  const float* bias;      // may be null
  const float* mod_gate;  // may be null
  const void* residual;   // may be null
  void* y;
  std::int64_t x_stride;
  std::int64_t w_stride;
  std::int64_t residual_stride;
  std::int64_t y_stride;
  int m;
  int y_aligned;  // 1: every 16-byte group of a row of y is 16-byte aligned
};

struct GemmArgs {
  GemmOperand operand[2];
  int n;
  int k;
  TileOrder order;
  int tiles;
  Out out;
  Finish finish;
  int k_per_split;            // = k when not split; a multiple of the tile's K otherwise
  std::int64_t split_stride;  // elements between the partial sums of consecutive splits
};

}  // namespace octavo::device
