// Which kernel runs a problem: the tuner's answer where there is one, else an estimate. Every choice gives the same bits.
#pragma once

#include <vector>

#include "device/device.h"
#include "ops/linear/gemm_problem.h"

namespace octavo {

// Seconds that `kernel` should take: the slowest of tensor cores, shared memory, L2 and DRAM, in whole waves of CTAs, plus what each tile
// and each launch costs. A model: good for ranking, within some 20 % of the clock.
double estimate_gemm_seconds(const GemmKernel& kernel, const GemmProblem& problem, const DeviceCaps& caps);

// Rows of tiles per raster group that keep one wave's rows of x and w together smallest.
GemmLaunch default_launch(const GemmKernel& kernel, const GemmProblem& problem, const DeviceCaps& caps);

// The candidates, fastest estimate first.
std::vector<const GemmKernel*> ranked_candidates(const GemmProblem& problem, const DeviceCaps& caps);

// The kernel to run, or null if none takes the problem on this GPU.
const GemmKernel* chosen(const GemmProblem& problem, const DeviceCaps& caps);

}  // namespace octavo
