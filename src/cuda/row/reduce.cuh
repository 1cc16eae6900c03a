// Sum and largest magnitude over the values of a team of warps, in an order that depends on the row's length alone.
// A block is [threads of a team, teams]: threadIdx.x counts within the team, threadIdx.y is the team. Most kernels have one.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"

namespace octavo::cuda {

inline constexpr std::uint32_t kAllLanes = 0xffffffffu;

// Waits for this thread's team, and no other: named barrier 1 + team.
__device__ __forceinline__ void team_barrier() { asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory"); }

// Shared scratch of a team. Reductions alternate between two halves, so that one barrier each is enough: whoever writes a half again
// has passed the barrier of the reduction between, which every reader of that half reached after reading.
// Of a half, 16 words are the warps' values and 16 their maxima where a sum takes the first. Warps that do not exist count as zero: whoever makes a RowReducer
// clears the scratch first.
struct ReduceScratch {
  alignas(16) std::uint32_t partial[2][kWarpLanes];
};

class RowReducer {
 public:
  // The first reduction's barrier orders this with what other warps write: they write their own slots only, after their own clearing.
  // With one team a block the barrier is __syncthreads(): a barrier whose number is not constant makes a block hold all 16.
  __device__ explicit RowReducer(ReduceScratch& scratch, bool has_teams = false) : scratch_(scratch), has_teams_(has_teams) {
    if (threadIdx.x < 2 * kWarpLanes && (threadIdx.x % kWarpLanes) * kWarpLanes >= blockDim.x)
      scratch.partial[threadIdx.x / kWarpLanes][threadIdx.x % kWarpLanes] = 0;
  }

  // Butterflies: every lane ends with the same bits, because x + y = y + x.
  __device__ float sum(float value) {
    value = warp_sum(value);
    if (blockDim.x == kWarpLanes) return value;
    return total_of(publish(__float_as_uint(value)));
  }

  // Bits of non-negative floats order as integers; a NaN lies above infinity, so it wins.
  __device__ std::uint32_t max(std::uint32_t bits) {
    bits = warp_max(bits);
    return blockDim.x == kWarpLanes ? bits : warp_max(publish(bits)[threadIdx.x % kMostWarps]);
  }

  // Both of the above for one barrier. Its maxima go where the constructor clears: a barrier must lie between them.
  __device__ void sum_and_max(float& value, std::uint32_t& bits) {
    value = warp_sum(value);
    bits = warp_max(bits);
    if (blockDim.x == kWarpLanes) return;
    if (threadIdx.x % kWarpLanes == 0) scratch_.partial[half_][kMostWarps + threadIdx.x / kWarpLanes] = bits;
    const std::uint32_t* half = publish(__float_as_uint(value));
    value = total_of(half);
    bits = warp_max(half[kMostWarps + threadIdx.x % kMostWarps]);
  }

 private:
  static constexpr int kMostWarps = 16;

  static __device__ float warp_sum(float value) {
#pragma unroll
    for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
    return value;
  }

  // The warps' sums in the order of the warps.
  static __device__ float total_of(const std::uint32_t* half) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < kMostWarps; i += 4) {
      if (i * kWarpLanes >= int(blockDim.x)) break;
      const float4 four = *reinterpret_cast<const float4*>(half + i);
      total += (four.x + four.y) + (four.z + four.w);
    }
    return total;
  }

  static __device__ std::uint32_t warp_max(std::uint32_t bits) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(kAllLanes, bits);
#else
#pragma unroll
    for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) {
      const std::uint32_t other = __shfl_xor_sync(kAllLanes, bits, distance);
      bits = bits > other ? bits : other;
    }
    return bits;
#endif
  }

  // Writes this warp's value and waits for the others'.
  __device__ const std::uint32_t* publish(std::uint32_t value) {
    std::uint32_t* half = scratch_.partial[half_];
    half_ ^= 1;
    if (threadIdx.x % kWarpLanes == 0) half[threadIdx.x / kWarpLanes] = value;
    if (has_teams_) {
      team_barrier();
    } else {
      __syncthreads();
    }
    return half;
  }

  ReduceScratch& scratch_;
  const bool has_teams_;
  int half_ = 0;
};

// Largest magnitude so far; NaN sticks.
class AbsMax {
 public:
  __device__ __forceinline__ void add(float value) {
#if __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(largest_) : "f"(fabsf(value)));
#else
    const float magnitude = fabsf(value);
    if (__float_as_uint(magnitude) > __float_as_uint(largest_)) largest_ = magnitude;
#endif
  }
  __device__ __forceinline__ std::uint32_t bits() const { return __float_as_uint(largest_); }

 private:
  float largest_ = 0;
};

}  // namespace octavo::cuda
