// Makes catalogue entries of MmaTile types: the glue between device/gemm_mma.cuh and GemmKernel.
#pragma once

#include <algorithm>

#include "ops/linear/device/gemm_mma.cuh"
#include "ops/linear/gemm_launch.h"

namespace octavo::gemm {

// Adds the partial sums of `splits` splits, which lie in `partial`, and stores y.
void launch_finish_split(const GemmProblem& problem, const int* partial, int splits, cudaStream_t stream);

template <class T, int kSplits>
struct MmaKernel {
  static bool accepts(const GemmProblem& problem) {
    if constexpr (T::kWarpsK > 1 || kSplits > 1) {  // one tile per CTA: the whole launch must be resident soon, or a larger tile is better
      if (problem.total_m() > 16 * T::kM) return false;
    }
    if constexpr (kSplits > 1) {
      if (problem.k < 2 * kSplits * T::kK) return false;
    }
    return sizes_fit(problem, T::kM, T::kN) && copies_fit(problem, T::kM, T::kN);
  }

  static std::int64_t workspace_for(const GemmProblem& problem) {
    return kSplits > 1 ? kSplits * problem.total_m() * problem.n * std::int64_t(sizeof(int)) : 0;
  }

  static void launch(const GemmProblem& problem, const GemmLaunch& how, void* workspace, void* stream_handle) {
    if (problem.total_m() == 0) return;
    const auto stream = static_cast<cudaStream_t>(stream_handle);
    const int gpu = current_device();
    static std::atomic<std::uint64_t> prepared{0};
    const auto kernel = &device::gemm_w8a8_mma<T, device::StoreEpilogue<T>>;
    allow_shared_bytes(reinterpret_cast<const void*>(kernel), T::kSharedBytes, prepared, gpu);
    device::GemmArgs args = args_of(problem, T::kM, T::kN, how.raster_group);
    if constexpr (kSplits > 1) {
      args.k_per_split = int(round_up(ceil_div(problem.k, std::int64_t(kSplits)), std::int64_t(T::kK)));
      args.split_stride = problem.total_m() * problem.n;
      args.out = device::Out::s32;
      args.finish = device::Finish::plain;
      args.operand[0].y = workspace;
      args.operand[1].y = static_cast<int*>(workspace) + problem.group[0].m * problem.n;
      args.operand[0].y_stride = args.operand[1].y_stride = problem.n;
    }
    const int splits = int(ceil_div(std::int64_t(args.k), std::int64_t(args.k_per_split)));
    // K parts exchange sums in the slots, so their CTAs take one tile each; all others stay and walk.
    const int ctas = T::kWarpsK > 1 ? args.tiles : std::min(args.tiles, sm_count_of(gpu) * T::kMinCtas);
    kernel<<<dim3(unsigned(ctas), unsigned(splits)), T::kThreads, T::kSharedBytes, stream>>>(args);
    cuda_check(cudaGetLastError(), "linear: launch of an mma kernel");
    if constexpr (kSplits > 1) launch_finish_split(problem, static_cast<const int*>(workspace), splits, stream);
  }
};

template <class T, int kSplits = 1>
constexpr GemmKernel mma_kernel(std::string_view id, std::string_view family, ArchRange arch) {
  using Kernel = MmaKernel<T, kSplits>;
  return {.id = id,
          .family = family,
          .arch = arch,
          .config = {.tile_m = T::kM,
                     .tile_n = T::kN,
                     .tile_k = T::kK,
                     .warps_m = T::kWarpsM,
                     .warps_n = T::kWarpsN,
                     .stages = T::kStages,
                     .split_k = kSplits,
                     .ctas_per_sm = T::kMinCtas,
                     .warps_k = T::kWarpsK},
          .shared_bytes = T::kSharedBytes,
          .accepts = &Kernel::accepts,
          .workspace_for = kSplits > 1 ? &Kernel::workspace_for : nullptr,
          .launch = &Kernel::launch};
}

}  // namespace octavo::gemm
