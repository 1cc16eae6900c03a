// The GPU body behind random_fill.h.
#pragma once

#include "tensor/tensor.h"

namespace octavo {

// `factor`: sigma, or for s8 kRandomCodeSigma, times kRandomUnit. Enqueues on `stream` (a cudaStream_t).
void random_fill_cuda(const TensorView& out, float factor, std::uint64_t seed, void* stream);

}  // namespace octavo
