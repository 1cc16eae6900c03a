// Sum and largest magnitude over the values of a CTA, in an order that depends on the row's length alone.
#pragma once

#include <cstdint>

namespace octavo::cuda {

inline constexpr std::uint32_t kAllLanes = 0xffffffffu;
inline constexpr int kWarpLanes = 32;

// Shared scratch. Reductions alternate between two halves, so that one barrier each is enough: whoever writes a half again
// has passed the barrier of the reduction between, which every reader of that half reached after reading.
struct ReduceScratch {
  std::uint32_t partial[2][kWarpLanes];
};

class RowReducer {
 public:
  __device__ explicit RowReducer(ReduceScratch& scratch) : scratch_(scratch) {}

  // Butterflies: every lane ends with the same bits, because x + y = y + x.
  __device__ float sum(float value) {
#pragma unroll
    for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
    if (blockDim.x == kWarpLanes) return value;
    value = __uint_as_float(share(__float_as_uint(value)));
#pragma unroll
    for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
    return value;
  }

  // Bits of non-negative floats order as integers; a NaN lies above infinity, so it wins.
  __device__ std::uint32_t max(std::uint32_t bits) {
    bits = warp_max(bits);
    return blockDim.x == kWarpLanes ? bits : warp_max(share(bits));
  }

 private:
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

  // Each lane gets one warp's value; lanes beyond the last warp get 0, which changes neither a sum nor a maximum.
  __device__ std::uint32_t share(std::uint32_t value) {
    const int warp = int(threadIdx.x) / kWarpLanes;
    const int lane = int(threadIdx.x) % kWarpLanes;
    std::uint32_t* half = scratch_.partial[half_];
    half_ ^= 1;
    if (lane == 0) half[warp] = value;
    __syncthreads();
    return lane < int(blockDim.x) / kWarpLanes ? half[lane] : 0u;
  }

  ReduceScratch& scratch_;
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
