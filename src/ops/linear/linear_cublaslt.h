// Float projections through cuBLASLt, where that library is installed.
#pragma once

#include "ops/exec_context.h"
#include "ops/linear/float_launch.h"

namespace octavo {

// Enqueues y = factor · x Wᵀ, or y += that, and returns true; false if the library is absent, switched off (OCTAVO_CUBLASLT=off), or does not do this: x and w
// of one 16-bit type, y that type or f32, nothing else in the epilogue, rows of whole 16 bytes. The algorithm is the first that the library's heuristic names
// for the sizes, so the bits are a fixed function of library, GPU and sizes (numerics.md section 8).
bool linear_cublaslt(ExecContext& ctx, const FloatLinearLaunch& launch, Device device);
// Empty if float projections may run through the library, else why not; for people.
const std::string& cublaslt_missing();

}  // namespace octavo
