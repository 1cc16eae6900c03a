// Plain CUDA bodies that the tests of linear stand on: fill, multiply, finish, compare. Written apart from the kernels they judge,
// and judged themselves against the CPU body on sampled rows.
#pragma once

#include <cstdint>

#include "ops/linear/gemm_problem.h"

namespace octavo::testing {

// Codes in [-127, 127], all equally likely.
void fill_codes(std::int8_t* to, std::int64_t count, std::uint64_t seed, void* stream);
// Floats in [low, high).
void fill_floats(float* to, std::int64_t count, float low, float high, std::uint64_t seed, void* stream);
// 16-bit floats in [-2, 2), bf16 or f16.
void fill_halves(std::uint16_t* to, std::int64_t count, DType dtype, std::uint64_t seed, void* stream);
void poison(void* to, std::int64_t bytes, void* stream);

// acc[m, n] = Σ_k x[m,k] · w[n,k], one thread an element.
void reference_sums(const std::int8_t* x, std::int64_t x_stride, const std::int8_t* w, std::int64_t w_stride, std::int32_t* acc, std::int64_t m, std::int64_t n,
                    std::int64_t k, void* stream);

// Compares what `problem` asks of group `g` with `acc` [m, n] finished plainly (numerics.md section 5), element by element, bit by bit; NaNs are equal.
// silu results may differ by `silu_ulps` units of the output type: exp is not exactly rounded. Columns from the row's end up to `y_stride`, and
// `guard_rows` rows behind the last, must still be poison. Returns the number of elements that fail.
std::int64_t count_wrong(const GemmProblem& problem, int g, const std::int32_t* acc, std::int64_t acc_stride, std::int64_t guard_rows, int silu_ulps,
                         void* stream);

}  // namespace octavo::testing
