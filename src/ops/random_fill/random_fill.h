// Random numbers straight into a tensor, for benches that need a network's weights and not their meaning.
#pragma once

#include <cstdint>

#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo {

// out[i] = sigma · g(seed, i) in f32, bf16 or f16, g near N(0, 1); s8: out[i] = rint(kRandomCodeSigma · g), sigma is not used.
// g is the sum of four 16-bit fields of a 64-bit hash, so |g| <= 3.46 and every device gives the same bits. `out` dense. random_value.h
// Throws InvalidArgument if `out` is strided or of another type.
void random_fill(ExecContext& ctx, const TensorView& out, float sigma, std::uint64_t seed);

// Codes as a Gaussian row of some thousand weights has them: its largest is near 3.8 sigma. A weight of spread sigma is then sigma / 33 · code.
inline constexpr float kRandomCodeSigma = 33;

}  // namespace octavo
