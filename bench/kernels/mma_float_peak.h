#pragma once

namespace octavo::bench {

// TFLOP/s of m16n8k16 bf16 from registers, 8 warps an SM with 16 independent sums each, best of `rounds` launches on the current device. Needs sm_80.
double mma_float_peak_tflops(int rounds);

}  // namespace octavo::bench
