// GemmProblem: what is asked of a W8A8 kernel. GemmConfig: how. GemmKernel: a compiled answer. Host only, no CUDA header.
//   y[m,n] = epilogue( ((float(acc) · x_scale[m]) · w_scale[n]) + bias[n] ),  acc = Σ_k x[m,k] · w[n,k]      numerics.md sections 4, 5
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "device/device.h"
#include "tensor/dtype.h"

namespace octavo {

enum class GemmEpilogue : std::uint8_t {
  plain,           // y = v (bias if the pointer is set)
  gated_residual,  // y = residual + mod_gate[n] · v; either pointer may be null: nothing added, factor 1
  silu_mul,        // w rows interleaved (gate, up): y[m, n/2] = silu(v[m, n]) · v[m, n+1]; y has N/2 columns
  silu,            // y = silu(v)
};

// One matrix product of a launch. Up to two share a launch (the conditional and the unconditional branch: same N, K, epilogue).
// Strides are elements between consecutive rows, 64-bit; all pointers are device memory.
struct GemmOperands {
  const std::int8_t* x = nullptr;  // [M, K]
  std::int64_t x_stride = 0;
  const float* x_scale = nullptr;  // [M]
  const std::int8_t* w = nullptr;  // [N, K]
  std::int64_t w_stride = 0;
  const float* w_scale = nullptr;   // [N]
  const float* bias = nullptr;      // [N] or null
  const float* mod_gate = nullptr;  // [N] for gated_residual, or null
  const void* residual = nullptr;   // [M, N], dtype of y, for gated_residual; may be y itself
  std::int64_t residual_stride = 0;
  void* y = nullptr;  // [M, N] or [M, N/2]; dtype `out`
  std::int64_t y_stride = 0;
  std::int64_t m = 0;  // 0 is allowed: nothing is done
};

struct GemmProblem {
  static constexpr int kMaxGroups = 2;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType out = DType::bf16;  // bf16, f16, f32; s32: the bare accumulator (x_scale, w_scale unused, plain only)
  GemmEpilogue epilogue = GemmEpilogue::plain;
  int groups = 1;
  GemmOperands group[kMaxGroups]{};

  std::int64_t total_m() const { return group[0].m + (groups > 1 ? group[1].m : 0); }
};

// A point of the design space. `id` is stable: it is stored in tuning files.
struct GemmConfig {
  int tile_m = 0, tile_n = 0, tile_k = 0;  // of one CTA
  int warps_m = 0, warps_n = 0;            // warp (or consumer warpgroup) grid
  int stages = 0;
  int split_k = 1;  // > 1: integer partial sums, then a fix-up; same bits
  int ctas_per_sm = 1;
  int cluster_m = 1, cluster_n = 1;
  bool pingpong = false;  // Hopper: two consumer warpgroups on two tiles
  int warps_k = 1;        // > 1: the K steps of a slice are dealt out to warps of the CTA
};

// What the launch may vary without changing the result.
struct GemmLaunch {
  int raster_group = 8;  // M tiles per group of the L2-aware tile order
};

struct ArchRange {
  int min_sm = 0;
  int max_sm = 999;
};

struct GemmKernel {
  std::string_view id{};      // "sm80_128x256x64_s3"
  std::string_view family{};  // "mma_sm80", "mma_sm75", "wgmma_sm90", "generic"
  ArchRange arch{};
  GemmConfig config{};
  int shared_bytes = 0;
  std::int64_t workspace_bytes = 0;                             // fixed part; split-K members report theirs through workspace_for
  bool (*accepts)(const GemmProblem&) = nullptr;                // alignment, K, epilogue, output type
  std::int64_t (*workspace_for)(const GemmProblem&) = nullptr;  // null: none
  // Enqueues on `stream` (a cudaStream_t). Throws DeviceError if the launch fails. `workspace` is zero-filled by nobody: the kernel clears what it needs.
  void (*launch)(const GemmProblem&, const GemmLaunch&, void* workspace, void* stream) = nullptr;
};

}  // namespace octavo
