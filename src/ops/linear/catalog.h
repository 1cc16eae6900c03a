// Every W8A8 GEMM kernel of this build, in one list. A tile that no longer wins anywhere leaves it.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#include "ops/linear/gemm_problem.h"

namespace octavo {

// One function per .cu file that holds kernels.
std::span<const GemmKernel> gemm_w8a8_sm80();        // mma.sync m16n8k32: large tiles
std::span<const GemmKernel> gemm_w8a8_sm80_small();  // the same kernel for few rows of x
std::span<const GemmKernel> gemm_w8a8_sm75();        // mma.sync m8n8k16
std::span<const GemmKernel> gemm_w8a8_sm90();        // wgmma
std::span<const GemmKernel> gemm_w8a8_generic();     // takes what the others refuse

// All of them, in a fixed order.
const std::vector<GemmKernel>& gemm_catalog();

// By its stable id, or null.
const GemmKernel* find_gemm_kernel(std::string_view id);

// The kernels that can run `problem` on a GPU with `caps`, in catalogue order. Empty only on a GPU older than sm_75.
std::vector<const GemmKernel*> gemm_candidates(const GemmProblem& problem, const DeviceCaps& caps);

}  // namespace octavo
