// Loops over a row that several ops need: reductions in the one order that the CPU bodies use, exponentials, codes.
// Every processor gives the same bits: each float step is one IEEE operation (exp.h: or one fused multiply-add), and no order depends on a register's width.
#pragma once

#include <cstdint>

namespace octavo::cpu {

// Σ x[k] and Σ (x[k] - center)², float32: 16 interleaved partial sums (k mod 16) of each block of kSumBlock numbers, added up block after block, then halved as
// a tree 8, 4, 2, 1. A 512-bit register keeps this order too; a number goes through at most 32 + K/512 + 4 additions.
inline constexpr std::int64_t kSumBlock = 512;
float sum(const float* x, std::int64_t count);
float sum_squares(const float* x, std::int64_t count, float center);

// max x[k], NaN ignored; -infinity for no elements.
float max_of(const float* x, std::int64_t count);
// x[k] *= factor
void scale(float* x, std::int64_t count, float factor);
// x[k] = e^(x[k] - center) for x[k] <= center; returns their sum, in the order above. exp.h says how exact.
float exp_and_sum(float* x, std::int64_t count, float center);
// x[k] = x[k] / (1 + e^-x[k]); and the same times up[k]
void silu(float* x, std::int64_t count);
void silu_mul(float* x, const float* up, std::int64_t count);
// x[k] = (x[k] · factor) · weight[k];  x[k] = (x[k] - center) · factor;  x[k] *= y[k];  x[k] += y[k];  x[k] += gate[k] · y[k]
void scale_by(float* x, std::int64_t count, float factor, const float* weight);
void center_and_scale(float* x, std::int64_t count, float center, float factor);
void multiply(float* x, const float* y, std::int64_t count);
void add(float* x, const float* y, std::int64_t count);
void add_gated(float* x, const float* gate, const float* y, std::int64_t count);

// y[n] = (float(acc[n]) · x_scale) · w_scale[n]      numerics.md section 5
void dequantize(const std::int32_t* acc, std::int64_t count, float x_scale, const float* w_scale, float* y);

// quantize_row and rotate_row of quant/quantize.h, the same bits.
float quantize_row(const float* x, std::int64_t count, std::int8_t* q);
void rotate_row(float* x, std::int64_t count, int group);

}  // namespace octavo::cpu
