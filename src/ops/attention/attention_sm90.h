// The Hopper kernel of attention.
#pragma once

#include "ops/attention/attention_launch.h"

namespace octavo {

// wgmma and TMA: 16-bit floats of one type, head_dim 256, not causal, aligned rows; compute capability 9.0.
bool fits_attention_sm90(const AttentionLaunch& launch, int sm);
void launch_attention_sm90(const AttentionLaunch& launch, void* stream);

}  // namespace octavo
