// The one call that every W8A8 peer answers in the benchmarks:  y = bf16( (float(x wᵀ) · x_scale[m]) · w_scale[n] ).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace octavo::bench {

struct PeerGemm {
  int m = 0, n = 0, k = 0;
  const std::int8_t* x = nullptr;  // [m, k]
  const std::int8_t* w = nullptr;  // [n, k]
  const float* x_scale = nullptr;  // [m]
  const float* w_scale = nullptr;  // [n]
  void* y = nullptr;               // bf16 [m, n]
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  int raster = 1;  // the peer's own raster swizzle, where it has one
  cudaStream_t stream = nullptr;
};

// Enqueues the product. False: this peer does not take the problem.
using PeerRun = bool (*)(const PeerGemm&);

struct Peer {
  const char* name;
  PeerRun run;
};

// The six CUTLASS 3 configurations of the benchmark; defined only in builds that were given the CUTLASS headers.
bool cutlass_s8_sm90_0(const PeerGemm&);
bool cutlass_s8_sm90_1(const PeerGemm&);
bool cutlass_s8_sm90_2(const PeerGemm&);
bool cutlass_s8_sm90_3(const PeerGemm&);
bool cutlass_s8_sm90_4(const PeerGemm&);
bool cutlass_s8_sm90_5(const PeerGemm&);

inline constexpr Peer kCutlassPeers[] = {
    {"cutlass 128x128x128 pingpong c2x1", cutlass_s8_sm90_0},    {"cutlass 64x256x128 pingpong c2x1", cutlass_s8_sm90_1},
    {"cutlass 128x256x128 cooperative c2x1", cutlass_s8_sm90_2}, {"cutlass 256x128x128 cooperative c2x1", cutlass_s8_sm90_3},
    {"cutlass 128x256x128 cooperative c1x2", cutlass_s8_sm90_4}, {"cutlass 256x128x128 cooperative c1x2", cutlass_s8_sm90_5},
};

// The CUTLASS 2.x configurations (mma.sync) that fit 99 KiB of shared memory: cutlass_s8_sm80.cu.
bool cutlass_s8_sm80_0(const PeerGemm&);
bool cutlass_s8_sm80_1(const PeerGemm&);
bool cutlass_s8_sm80_2(const PeerGemm&);
bool cutlass_s8_sm80_3(const PeerGemm&);
bool cutlass_s8_sm80_4(const PeerGemm&);
bool cutlass_s8_sm80_5(const PeerGemm&);
bool cutlass_s8_sm80_6(const PeerGemm&);
bool cutlass_s8_sm80_7(const PeerGemm&);

}  // namespace octavo::bench
