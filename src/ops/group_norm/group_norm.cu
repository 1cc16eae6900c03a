// Group normalisation in three launches: sums per chunk of pixels, statistics per group, the result. Sums are float64, so one pass gives the variance.
#include "cuda/row/launch.h"
#include "cuda/row/reduce.cuh"
#include "cuda/row/values.cuh"
#include "device/cuda_check.h"
#include "ops/group_norm/group_norm_launch.h"

namespace octavo {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// CTA (chunk, group): a thread walks over the group's channels of its pixels in a fixed order; then lanes by butterfly, warps in order.
__global__ void __launch_bounds__(kThreads) group_sums_kernel(const GroupNormLaunch launch) {
  __shared__ double sums[2][kWarps];
  const int chunk = int(blockIdx.x) % kGroupNormChunks, group = int(blockIdx.x) / kGroupNormChunks;
  const int width = launch.channels / launch.groups;
  const std::int64_t per_chunk = (launch.pixels + kGroupNormChunks - 1) / kGroupNormChunks;
  const std::int64_t first = chunk * per_chunk, end = first + per_chunk < launch.pixels ? first + per_chunk : launch.pixels;
  double sum = 0, squares = 0;
  for (std::int64_t i = threadIdx.x; i < (end - first) * width; i += kThreads) {
    const std::int64_t pixel = first + i / width;
    const double v = double(cuda::load_one(launch.x, launch.x_type, pixel * launch.channels + group * width + i % width));
    sum += v;
    squares += v * v;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(cuda::kAllLanes, sum, distance);
    squares += __shfl_xor_sync(cuda::kAllLanes, squares, distance);
  }
  if (threadIdx.x % 32 == 0) {
    sums[0][threadIdx.x / 32] = sum;
    sums[1][threadIdx.x / 32] = squares;
  }
  __syncthreads();
  if (threadIdx.x >= 2) return;
  double total = 0;
  for (int w = 0; w < kWarps; ++w) total += sums[threadIdx.x][w];
  launch.partial[(std::int64_t(chunk) * launch.groups + group) * 2 + threadIdx.x] = total;
}

// A warp a group.
__global__ void __launch_bounds__(32) group_statistics_kernel(const GroupNormLaunch launch) {
  const int group = int(blockIdx.x);
  double sum = 0, squares = 0;
  for (int chunk = int(threadIdx.x); chunk < kGroupNormChunks; chunk += 32) {
    const double* at = launch.partial + (std::int64_t(chunk) * launch.groups + group) * 2;
    sum += at[0];
    squares += at[1];
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(cuda::kAllLanes, sum, distance);
    squares += __shfl_xor_sync(cuda::kAllLanes, squares, distance);
  }
  if (threadIdx.x != 0) return;
  const double count = double(launch.pixels) * (launch.channels / launch.groups);
  const double mean = sum / count;
  double variance = squares / count - mean * mean;
  if (variance < 0) variance = 0;  // a constant map, rounded
  launch.statistics[2 * group] = float(mean);
  launch.statistics[2 * group + 1] = float(1.0 / sqrt(variance + double(launch.eps)));
}

__device__ __forceinline__ float normalized(const GroupNormLaunch& launch, int channel, float x) {
  const int group = channel / (launch.channels / launch.groups);
  float v = (x - launch.statistics[2 * group]) * launch.statistics[2 * group + 1];
  v = v * cuda::load_one(launch.weight, launch.weight_type, channel) + cuda::load_one(launch.bias, launch.bias_type, channel);
  return launch.silu ? v / (1.0f + expf(-v)) : v;
}

// Eight neighbouring channels a thread.
template <cuda::RowType Type, cuda::RowType Out>
__global__ void __launch_bounds__(kThreads) group_apply_kernel(const GroupNormLaunch launch) {
  const std::int64_t at = (std::int64_t(blockIdx.x) * kThreads + threadIdx.x) * 8;
  if (at >= launch.pixels * launch.channels) return;
  const int channel = int(at % launch.channels);
  float v[8];
  cuda::unpack8<Type>(cuda::load_raw8<Type>(static_cast<const char*>(launch.x) + at * cuda::bytes_of(Type)), v);
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = normalized(launch, channel + i, v[i]);
  cuda::store_raw8<Out>(static_cast<char*>(launch.y) + at * cuda::bytes_of(Out), cuda::pack8<Out>(v));
}

__global__ void __launch_bounds__(kThreads) group_apply_general_kernel(const GroupNormLaunch launch) {
  const std::int64_t at = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= launch.pixels * launch.channels) return;
  cuda::store_one(launch.y, launch.y_type, at, normalized(launch, int(at % launch.channels), cuda::load_one(launch.x, launch.x_type, at)));
}

}  // namespace

void launch_group_norm_statistics(const GroupNormLaunch& launch, void* stream) {
  cuda_check(cuda::launch_rows(&group_sums_kernel, std::int64_t(kGroupNormChunks) * launch.groups, kThreads, 0, stream, launch), "group_norm: sums");
  cuda_check(cuda::launch_rows(&group_statistics_kernel, launch.groups, 32, 0, stream, launch), "group_norm: statistics");
}

void launch_group_norm_apply(const GroupNormLaunch& launch, void* stream) {
  const std::int64_t count = launch.pixels * launch.channels;
  const bool is_fast = launch.channels % 8 == 0 && cuda::is_aligned_16(launch.x, 0) && cuda::is_aligned_16(launch.y, 0);
  if (!is_fast) {
    const std::int64_t ctas = (count + kThreads - 1) / kThreads;
    return cuda_check(cuda::launch_rows(&group_apply_general_kernel, ctas, kThreads, 0, stream, launch), "group_norm");
  }
  cuda::with_type(launch.x_type, [&](auto type) {
    cuda::with_type(launch.y_type, [&](auto out) {
      const std::int64_t ctas = (count / 8 + kThreads - 1) / kThreads;
      cuda_check(cuda::launch_rows(&group_apply_kernel<type(), out()>, ctas, kThreads, 0, stream, launch), "group_norm");
    });
  });
}

}  // namespace octavo
