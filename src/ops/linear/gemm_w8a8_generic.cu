// The kernel of last resort: odd K, misaligned rows, any stride. See device/gemm_generic.cuh.
#include "ops/linear/catalog.h"
#include "ops/linear/device/finish_split.cuh"
#include "ops/linear/device/gemm_generic.cuh"
#include "ops/linear/gemm_launch.h"
#include "ops/linear/gemm_mma_kernels.h"

namespace octavo {
namespace {

bool accepts(const GemmProblem& problem) { return gemm::sizes_fit(problem, device::kGenericTile, device::kGenericTile); }

void launch(const GemmProblem& problem, const GemmLaunch& how, void*, void* stream) {
  if (problem.total_m() == 0) return;
  const device::GemmArgs args = gemm::args_of(problem, device::kGenericTile, device::kGenericTile, how.raster_group);
  device::gemm_w8a8_generic<<<unsigned(args.tiles), device::kGenericThreads, 0, static_cast<cudaStream_t>(stream)>>>(args);
  cuda_check(cudaGetLastError(), "linear: launch of the generic kernel");
}

constexpr GemmKernel kKernels[] = {
    {.id = "generic_64x64x32",
     .family = "generic",
     .arch = {.min_sm = 75},
     .config = {.tile_m = device::kGenericTile,
                .tile_n = device::kGenericTile,
                .tile_k = device::kGenericSlice,
                .warps_m = 4,
                .warps_n = 2,
                .stages = 1,
                .ctas_per_sm = 4},
     .shared_bytes = 2 * device::kGenericTile * device::kGenericPitch,
     .accepts = &accepts,
     .launch = &launch},
};

}  // namespace

void gemm::launch_finish_split(const GemmProblem& problem, const int* partial, int splits, cudaStream_t stream) {
  device::GemmArgs args = args_of(problem, 1, 1, 1);
  args.split_stride = problem.total_m() * problem.n;
  const std::int64_t threads = problem.total_m() * ceil_div(problem.n, std::int64_t(4));
  device::finish_split<<<unsigned(ceil_div(threads, std::int64_t(device::kFinishThreads))), device::kFinishThreads, 0, stream>>>(args, partial, splits);
  cuda_check(cudaGetLastError(), "linear: launch of finish_split");
}

std::span<const GemmKernel> gemm_w8a8_generic() { return kKernels; }

}  // namespace octavo
