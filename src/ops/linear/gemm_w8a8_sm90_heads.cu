// The wgmma kernel whose epilogue is head_norm_rope.
#include "ops/linear/gemm_w8a8_sm90_launch.cuh"
#include "ops/linear/heads_launch.h"

namespace octavo {
namespace {

// A head's sum of squares must lie in one tile, so it is 256 wide; with 64 rows two consumers can still take turns, and the longer epilogue hides behind
// the other's products. Loads as much from the L2 for a product as 128 × 128 does.
using Heads = sm90::Shape<64, kFusedHeadDim, 5, 2, 1, true, sm90::Hot::heads>;
constexpr int kRasterGroup = 16;  // not tuned

}  // namespace

bool fits_heads_sm90(const GemmProblem& problem, const HeadNormLaunch& heads, int sm) {
  return sm == 90 && problem.groups == 1 && problem.epilogue == GemmEpilogue::plain && problem.n == 3 * std::int64_t(heads.columns) &&
         heads.columns % kFusedHeadDim == 0 && gemm::aligned_16(heads.cos) && gemm::aligned_16(heads.sin) && heads.table_stride % 4 == 0 &&
         sm90::accepts<Heads>(problem);
}

void launch_heads_sm90(const GemmProblem& problem, const HeadNormLaunch& heads, void* stream) {
  sm90::launch<Heads>(problem, kRasterGroup, sm90::Options{}, static_cast<cudaStream_t>(stream), heads);
}

}  // namespace octavo
