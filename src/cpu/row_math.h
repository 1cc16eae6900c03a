// Reductions over a row in the one order that the CPU bodies use, plain and fast.
#pragma once

#include <cstdint>

namespace octavo::cpu {

// Σ x[k] and Σ (x[k] - center)², float32: 16 interleaved partial sums (k mod 16), then halved as a tree 8, 4, 2, 1.
// A fixed order that a 512-bit register keeps too, so the same bits on every processor; its error grows with K/16, not with K.
float sum(const float* x, std::int64_t count);
float sum_squares(const float* x, std::int64_t count, float center);

}  // namespace octavo::cpu
