// From a GemmProblem to a kernel launch. Included by the .cu files that hold kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>

#include "base/checked_math.h"
#include "device/cuda_check.h"
#include "ops/linear/device/gemm_args.h"
#include "ops/linear/gemm_problem.h"

namespace octavo::gemm {

inline bool aligned_16(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

inline device::Out out_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return device::Out::bf16;
    case DType::f16:
      return device::Out::f16;
    case DType::f32:
      return device::Out::f32;
    default:
      return device::Out::s32;
  }
}

inline device::Finish finish_of(GemmEpilogue epilogue) {
  switch (epilogue) {
    case GemmEpilogue::gated_residual:
      return device::Finish::gated_residual;
    case GemmEpilogue::silu_mul:
      return device::Finish::silu_mul;
    case GemmEpilogue::silu:
      return device::Finish::silu;
    default:
      return device::Finish::plain;
  }
}

inline std::int64_t tiles_of(std::int64_t rows, int tile) { return ceil_div(rows, std::int64_t(tile)); }

// Everything but the tiling. Offsets inside kernels: rows are counted in 32 bits, elements in 64.
inline device::GemmArgs args_of(const GemmProblem& problem, int tile_m, int tile_n, int raster_group) {
  device::GemmArgs args{};
  for (int i = 0; i < problem.groups; ++i) {
    const GemmOperands& from = problem.group[i];
    device::GemmOperand& to = args.operand[i];
    const bool tail = problem.epilogue == GemmEpilogue::gated_residual;
    to = {.x = from.x,
          .w = from.w,
          .x_scale = from.x_scale,
          .w_scale = from.w_scale,
          .bias = from.bias,
          .mod_gate = tail ? from.mod_gate : nullptr,
          .residual = tail ? from.residual : nullptr,
          .y = from.y,
          .x_stride = from.x_stride,
          .w_stride = from.w_stride,
          .residual_stride = from.residual_stride,
          .y_stride = from.y_stride,
          .m = int(from.m),
          .y_aligned = aligned_16(from.y) && from.y_stride * std::int64_t(bytes_of(problem.out)) % 16 == 0};
  }
  args.n = int(problem.n);
  args.k = int(problem.k);
  const int tiles_m1 = problem.groups > 1 ? int(tiles_of(problem.group[1].m, tile_m)) : 0;
  args.order =
      device::tile_order_of(int(tiles_of(problem.group[0].m, tile_m)), tiles_m1, int(tiles_of(problem.n, tile_n)), raster_group > 0 ? raster_group : 1);
  args.tiles = (args.order.tiles_m0 + args.order.tiles_m1) * args.order.tiles_n;
  args.out = out_of(problem.out);
  args.finish = finish_of(problem.epilogue);
  args.k_per_split = args.k;
  return args;
}

// What every kernel asks: sizes that fit its counters, an epilogue that the output type has.
inline bool sizes_fit(const GemmProblem& problem, int tile_m, int tile_n) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (problem.n < 1 || problem.k < 1 || problem.n > kMost - 1024 || problem.k > kMost - 1024 || problem.groups < 1 || problem.groups > GemmProblem::kMaxGroups)
    return false;
  if (problem.out == DType::s32 && problem.epilogue != GemmEpilogue::plain) return false;
  if (problem.epilogue == GemmEpilogue::silu_mul && problem.n % 2 != 0) return false;
  std::int64_t tiles = 0;
  for (int i = 0; i < problem.groups; ++i) {
    if (problem.group[i].m > kMost - 1024) return false;
    tiles += tiles_of(problem.group[i].m, tile_m) * tiles_of(problem.n, tile_n);
  }
  return tiles <= kMost;
}

// 16-byte copies and 32-bit offsets within a tile.
inline bool copies_fit(const GemmProblem& problem, int tile_m, int tile_n) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (problem.k % 16 != 0) return false;
  for (int i = 0; i < problem.groups; ++i) {
    const GemmOperands& g = problem.group[i];
    if (g.m == 0) continue;
    if (!aligned_16(g.x) || !aligned_16(g.w) || g.x_stride % 16 != 0 || g.w_stride % 16 != 0) return false;
    if (g.x_stride < 0 || g.w_stride < 0 || g.x_stride > (kMost - problem.k) / tile_m || g.w_stride > (kMost - problem.k) / tile_n) return false;
  }
  return true;
}

inline int current_device() {
  int device = 0;
  cuda_check(cudaGetDevice(&device), "linear: current device");
  return device;
}

inline int sm_count_of(int device) {
  static std::atomic<int> counts[64];
  const bool cached = device < 64;
  int count = cached ? counts[device].load(std::memory_order_relaxed) : 0;
  if (count == 0) {
    cuda_check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "linear: number of SMs");
    if (cached) counts[device].store(count, std::memory_order_relaxed);
  }
  return count;
}

// Opts a kernel in to more than 48 KiB of shared memory, once per device. `prepared` is the kernel's own set of devices.
inline void allow_shared_bytes(const void* kernel, int bytes, std::atomic<std::uint64_t>& prepared, int device) {
  const std::uint64_t bit = device < 64 ? std::uint64_t(1) << device : 0;
  if (bit != 0 && (prepared.load(std::memory_order_relaxed) & bit) != 0) return;
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "linear: shared memory of a kernel");
  prepared.fetch_or(bit, std::memory_order_relaxed);
}

}  // namespace octavo::gemm
