// The mma.sync kernels of head_dim 256 with the clocks that a product takes on a GeForce.
#pragma once

#include "ops/attention/attention_int8_launch.h"
#include "ops/attention/attention_launch.h"

namespace octavo::bench {

// How often each product is done. m16n8k16 with float32 sums takes 32 clocks a quarter SM on sm_86, 89 and 120 (512 FLOP a clock and SM), 6.7 on an H200
// (measured ceiling): the rest of the kernel then weighs what it weighs there, in one CTA an SM.
inline constexpr int kGeForceTimes = 5;

// bf16, not causal. The result has no meaning.
void launch_attention_as_on_geforce(const AttentionLaunch& launch, void* stream);

// int8 scores, float16 sums: m16n8k32 and m16n8k16 take 16 clocks there, between twice and three times what they take on an H200. `times` is 1, 2 or 3.
void launch_attention_int8_slowed(const AttentionInt8Launch& launch, int times, void* stream);

}  // namespace octavo::bench
