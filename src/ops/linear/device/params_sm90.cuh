// What a Hopper GEMM launch is told.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "ops/linear/device/gemm_args.h"
#include "ops/linear/device/tile_order_sm90.h"
#include "ops/linear/heads_launch.h"

namespace octavo::sm90 {

using device::Finish;
using device::Out;

struct Group {
  CUtensorMap x, w;
  const float* x_scale;
  const float* w_scale;
  const float* bias;      // may be null, as the next two
  const float* mod_gate;  // gated_residual only
  const void* residual;   // gated_residual only
  void* y_data;
  long long residual_stride;
  long long y_stride;
  int m;
};

struct Params {
  Group group[kMaxGroups];
  TileOrder order;
  int n;
  int k_blocks;
  Out out;
  Finish finish;
  bool direct;           // plain bf16, or silu_mul without bias, rows made of aligned 16-byte groups
  bool vector_y;         // two neighbouring outputs can be stored at once
  bool vector_residual;  // two neighbouring residuals can be loaded at once
  bool may_repeat_rows;  // a row computed and stored twice is the same row: y is not read
  bool keep_x;           // ask the L2 to keep x longest
  HeadNormLaunch heads;  // Hot::heads only
};

}  // namespace octavo::sm90
