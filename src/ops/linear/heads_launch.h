// What linear_cuda.cpp hands to the kernel that ends a q, k, v projection with head_norm_rope.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"
#include "ops/linear/gemm_problem.h"

namespace octavo {

inline constexpr int kFusedHeadDim = 256;  // a head is one tile of outputs, a quad of lanes holds a row of it

struct HeadNormLaunch {
  const void* weight[2] = {};  // of q, of k: [D]
  cuda::RowType weight_type = cuda::RowType::f32;
  const float* cos = nullptr;  // [M, D/2]
  const float* sin = nullptr;
  std::int64_t table_stride = 0;  // elements between their rows
  float eps = 0;
  int columns = 0;  // of q, and of k; those of v, from 2 · columns on, stay as they are
};

// One group, plain, bf16, no bias, heads of kFusedHeadDim; rows, weights and tables in 16-byte groups; sm_90.
bool fits_heads_sm90(const GemmProblem& problem, const HeadNormLaunch& heads, int sm);
// Enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
void launch_heads_sm90(const GemmProblem& problem, const HeadNormLaunch& heads, void* stream);

}  // namespace octavo
