// From a GemmProblem to a launch of the Hopper kernel: which problems fit, tensor maps, tile order, cluster launch. Host code.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <string>

#include "cuda/row/launch.h"
#include "octavo/error.h"
#include "ops/linear/device/gemm_w8a8_sm90.cuh"
#include "ops/linear/gemm_launch.h"
#include "ops/linear/gemm_problem.h"

namespace octavo::sm90 {

// Choices that never change a result. The defaults are the measured best (bench/results); the probe varies them.
struct Options {
  bool halve_last_wave = true;
  bool keep_x = false;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
};

// Rows of y are made of whole, aligned 16-byte groups, and the epilogue is one of the hot ones.
inline bool is_direct(const GemmProblem& problem) {
  const bool pairs = problem.epilogue == GemmEpilogue::silu_mul;
  if (problem.out != DType::bf16 || (!pairs && problem.epilogue != GemmEpilogue::plain) || problem.n % (pairs ? 16 : 8) != 0) return false;
  for (int g = 0; g < problem.groups; ++g) {
    if (pairs && problem.group[g].bias != nullptr) return false;
    if (problem.group[g].m > 0 && (!gemm::aligned_16(problem.group[g].y) || problem.group[g].y_stride % 8 != 0)) return false;
  }
  return true;
}

// The copy engine wants rows of x and w on 16-byte addresses, whatever K is; shapes without registers to spare want the hot epilogue.
template <class S>
bool accepts(const GemmProblem& problem) {
  if (!gemm::sizes_fit(problem, S::kTileM, S::kTileN) || (S::kHotOnly && !is_direct(problem))) return false;
  for (int g = 0; g < problem.groups; ++g) {
    const GemmOperands& o = problem.group[g];
    if (o.m == 0) continue;
    if (!gemm::aligned_16(o.x) || !gemm::aligned_16(o.w) || o.x_stride % 16 != 0 || o.w_stride % 16 != 0) return false;
    if (S::kHotOnly && o.bias != nullptr) return false;
  }
  return true;
}

// A map of an int8 matrix [rows, columns] that is loaded in boxes of box_rows × 128 bytes. Costs the host well under a microsecond.
inline CUtensorMap tensor_map(const void* data, std::int64_t rows, std::int64_t columns, std::int64_t stride, int box_rows, CUtensorMapL2promotion promotion) {
  // The driver's function is looked up at run time: the program must start without a driver.
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cuda_check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
               "linear w8a8 sm90: look up cuTensorMapEncodeTiled");
    if (found != cudaDriverEntryPointSuccess)
      throw Unsupported("linear w8a8 sm90: this driver has no tensor maps (cuTensorMapEncodeTiled); it must be 12.0 or newer");
    return reinterpret_cast<Encode>(function);
  }();
  CUtensorMap map{};
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(stride)};
  const cuuint32_t box[2] = {kTileK, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t element_strides[2] = {1, 1};
  const CUresult status = encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(data), sizes, strides, box, element_strides,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw DeviceError("linear w8a8 sm90: tensor map of [" + std::to_string(rows) + ", " + std::to_string(columns) + "], row stride " + std::to_string(stride) +
                      ": driver status " + std::to_string(static_cast<int>(status)) + "; pass rows on 16-byte addresses");
  }
  return map;
}

template <class S>
cudaLaunchConfig_t launch_config(int clusters, cudaLaunchAttribute (&attributes)[2]) {
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(S::kCluster), 1, 1};
  attributes[1] = cuda::overlap_attribute(0);  // every sm_90 can
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * S::kCluster));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = S::kSharedBytes;
  config.attrs = attributes;
  config.numAttrs = 2;
  return config;
}

// How many clusters of this kernel the current device runs at once (one CTA per SM); asked once per device. Also raises the shared memory limit.
template <class S>
int max_clusters() {
  constexpr int kMaxDevices = 64;
  static std::atomic<int> known[kMaxDevices];
  int device = 0;
  cuda_check(cudaGetDevice(&device), "linear w8a8 sm90: current device");
  int clusters = device < kMaxDevices ? known[device].load(std::memory_order_acquire) : 0;
  if (clusters > 0) return clusters;
  cuda_check(cudaFuncSetAttribute(gemm_w8a8_sm90<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes),
             "linear w8a8 sm90: raise the shared memory limit");
  int multiprocessors = 0;
  cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "linear w8a8 sm90: multiprocessor count");
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = launch_config<S>(multiprocessors / S::kCluster, attributes);
  config.numAttrs = 1;
  cuda_check(cudaOccupancyMaxActiveClusters(&clusters, gemm_w8a8_sm90<S>, &config), "linear w8a8 sm90: cluster occupancy");
  if (clusters < 1)
    throw DeviceError("linear w8a8 sm90: no cluster of " + std::to_string(S::kCluster) + " CTAs fits this device now; another kernel must be chosen");
  if (device < kMaxDevices) known[device].store(clusters, std::memory_order_release);
  return clusters;
}

template <class S>
Group make_group(const GemmProblem& problem, const GemmOperands& o, const Options& options) {
  Group group{};
  // A stride is meaningless for a single row; the map still wants one of at least a row.
  const auto stride = [](std::int64_t given, std::int64_t row, std::int64_t rows) { return rows == 1 && given < row ? (row + 15) / 16 * 16 : given; };
  group.x = tensor_map(o.x, o.m, problem.k, stride(o.x_stride, problem.k, o.m), S::kXBoxRows, options.promotion);
  group.w = tensor_map(o.w, problem.n, problem.k, stride(o.w_stride, problem.k, problem.n), S::kWBoxRows, options.promotion);
  group.x_scale = o.x_scale;
  group.w_scale = o.w_scale;
  group.bias = o.bias;
  const bool tail = problem.epilogue == GemmEpilogue::gated_residual;
  group.mod_gate = tail ? o.mod_gate : nullptr;
  group.residual = tail ? o.residual : nullptr;
  group.y_data = o.y;
  group.residual_stride = o.residual_stride;
  group.y_stride = o.y_stride;
  group.m = static_cast<int>(o.m);
  return group;
}

template <class S>
void launch(const GemmProblem& problem, int raster_group, const Options& options, cudaStream_t stream, const HeadNormLaunch& heads = {}) {
  Params p{};
  p.n = static_cast<int>(problem.n);
  p.k_blocks = static_cast<int>((problem.k + kTileK - 1) / kTileK);
  p.out = gemm::out_of(problem.out);
  p.finish = gemm::finish_of(problem.epilogue);
  p.keep_x = options.keep_x;
  p.heads = heads;

  p.direct = is_direct(problem);
  p.may_repeat_rows = problem.epilogue != GemmEpilogue::gated_residual;
  p.vector_y = p.vector_residual = true;
  for (int g = 0; g < problem.groups; ++g) {
    const GemmOperands& o = problem.group[g];
    const auto pairs = [&](const void* data, std::int64_t stride) {
      return reinterpret_cast<std::uintptr_t>(data) % (2 * bytes_of(problem.out)) == 0 && stride % 2 == 0;
    };
    p.vector_y = p.vector_y && pairs(o.y, o.y_stride);
    p.vector_residual = p.vector_residual && pairs(o.residual, o.residual_stride);
  }

  int used = 0;  // groups without rows are left out
  int m_tiles[kMaxGroups] = {};
  for (int g = 0; g < problem.groups; ++g) {
    const GemmOperands& o = problem.group[g];
    if (o.m == 0) continue;
    p.group[used] = make_group<S>(problem, o, options);
    m_tiles[used++] = static_cast<int>((o.m + S::kTileM * S::kClusterM - 1) / (S::kTileM * S::kClusterM));
  }
  if (used == 0) return;

  const int n_tiles = (p.n + S::kTileN * S::kClusterN - 1) / (S::kTileN * S::kClusterN);
  const int clusters_on_gpu = max_clusters<S>();
  p.order = make_tile_order(m_tiles[0], m_tiles[1], n_tiles, raster_group / S::kClusterM, clusters_on_gpu, options.halve_last_wave && S::kHalves);
  const int clusters = p.order.items < clusters_on_gpu ? p.order.items : clusters_on_gpu;

  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = launch_config<S>(clusters, attributes);
  config.stream = stream;
  cuda_check(cudaLaunchKernelEx(&config, gemm_w8a8_sm90<S>, p), "linear w8a8 sm90: launch");
}

}  // namespace octavo::sm90
