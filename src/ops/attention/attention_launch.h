// What attention_cuda.cpp hands to the kernels.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"

namespace octavo {

struct AttentionLaunch {
  cuda::RowsIn q{}, k{}, v{}, y{};
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  float softmax_scale = 0;
  bool causal = false;
};

// Tensor cores, 16-bit floats of one type, head_dim 64, 128, 256 or 512, aligned rows; sm_80 and later.
bool fits_attention_mma(const AttentionLaunch& launch, int sm);
// Each enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
void launch_attention_mma(const AttentionLaunch& launch, void* stream);
// Turing's body: float16, the same head sizes; for sm_75, but built up to sm_90 so that tests run it.
bool fits_attention_turing(const AttentionLaunch& launch, int sm);
void launch_attention_turing(const AttentionLaunch& launch, void* stream);
// Any types, head_dim up to 1024, any alignment.
inline constexpr int kMaxPlainHeadDim = 1024;
void launch_attention_plain(const AttentionLaunch& launch, void* stream);

}  // namespace octavo
