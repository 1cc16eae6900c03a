// The wgmma kernels of Hopper. Measured beside CUTLASS 3 and cuBLASLt: bench/results/README.md, bench/kernels/gemm_sm90_probe.cu.
#include "ops/linear/catalog.h"
#include "ops/linear/gemm_w8a8_sm90_launch.cuh"

namespace octavo {
namespace {

template <class S>
struct WgmmaKernel {
  static bool accepts(const GemmProblem& problem) { return sm90::accepts<S>(problem); }
  static void launch(const GemmProblem& problem, const GemmLaunch& how, void*, void* stream) {
    if constexpr (S::kHotOnly) {
      if (problem.epilogue == GemmEpilogue::silu_mul)
        return sm90::launch<typename S::Pairs>(problem, how.raster_group, sm90::Options{}, static_cast<cudaStream_t>(stream));
    }
    sm90::launch<S>(problem, how.raster_group, sm90::Options{}, static_cast<cudaStream_t>(stream));
  }
};

template <class S>
constexpr GemmKernel wgmma_kernel(std::string_view id) {
  return {.id = id,
          .family = "wgmma_sm90",
          .arch = {.min_sm = 90, .max_sm = 90},
          .config = {.tile_m = S::kTileM,
                     .tile_n = S::kTileN,
                     .tile_k = sm90::kTileK,
                     .warps_m = S::kPingPong ? 4 : 8,
                     .warps_n = 1,
                     .stages = S::kStages,
                     .cluster_m = S::kClusterM,
                     .cluster_n = S::kClusterN,
                     .pingpong = S::kPingPong},
          .shared_bytes = S::kSharedBytes,
          .accepts = &WgmmaKernel<S>::accepts,
          .launch = &WgmmaKernel<S>::launch};
}

//                        M    N  stages, cluster M, N, ping-pong
using Wide = sm90::Shape<128, 256, 4, 2, 1, false>;        // least traffic from the L2, all epilogues; ahead where the GPU is not at its power limit
using PingPong192 = sm90::Shape<128, 192, 5, 2, 1, true>;  // 90 % of the tensor cores' clocks; the direct epilogues only
using PingPong128 = sm90::Shape<128, 128, 6, 2, 1, true>;  // finest tiles with a full cluster, all epilogues: N = 4608 at M = 2304
using Small = sm90::Shape<64, 128, 8, 1, 1, true>;         // M up to a few hundred: no second CTA that would have no rows

constexpr GemmKernel kKernels[] = {
    wgmma_kernel<PingPong192>("sm90_128x192x128_s5_pp"),
    wgmma_kernel<Wide>("sm90_128x256x128_s4"),
    wgmma_kernel<PingPong128>("sm90_128x128x128_s6_pp"),
    wgmma_kernel<Small>("sm90_64x128x128_s8_pp"),
};

}  // namespace

std::span<const GemmKernel> gemm_w8a8_sm90() { return kKernels; }

}  // namespace octavo
