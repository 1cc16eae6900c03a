#pragma once

namespace octavo::bench {

enum class MmaKind { bf16, s8, f16_sums };  // m16n8k16 with float32 sums, m16n8k32 with int32 sums, m16n8k16 with float16 sums

// TFLOP/s (s8: TOP/s) from registers, 8 warps an SM with 16 independent sums each, best of `rounds` launches on the current device. Needs sm_80.
double mma_peak_tflops(MmaKind kind, int rounds);

}  // namespace octavo::bench
