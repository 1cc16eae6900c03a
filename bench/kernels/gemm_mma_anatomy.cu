// What holds the mma.sync main loop back: the same products with one ingredient more each time.
//   products   fragments stay in registers (in the pattern of the real loop)
//   loads      + ldmatrix of every fragment
//   barriers   + one CTA barrier per slice
//   copies     + cp.async of every slice, from a buffer that fits the L2 cache
// Prints TOPS of each, for several tiles and gaps between fragment loads.
#include <cuda_runtime.h>

#include <cstdio>

#include "ops/linear/device/gemm_mma.cuh"

namespace {

using namespace octavo::device;  // NOLINT: the whole file is about it
namespace cuda = octavo::cuda;

enum Ingredients { kProducts = 0, kLoads = 1, kBarriers = 2, kCopies = 3 };

template <class T, int kWith>
__global__ void __launch_bounds__(T::kThreads, T::kMinCtas) loop(const __grid_constant__ GemmArgs args, int slices, int* out) {
  extern __shared__ __align__(1024) std::uint8_t shared_bytes[];
  const std::uint32_t shared = cuda::shared_address(shared_bytes);
  const int warp = __shfl_sync(0xffffffffu, int(threadIdx.x) / kWarp, 0);
  const int lane = int(threadIdx.x) % kWarp;
  SliceCopy<T> copy;
  copy.start(args, shared);
  if (kWith < kCopies) {  // something that is not zero
    for (int i = int(threadIdx.x); i < T::kStages * T::kSlice / 4; i += T::kThreads) reinterpret_cast<std::uint32_t*>(shared_bytes)[i] = i * 2654435761u;
  } else {
    for (int stage = 0; stage < T::kStages; ++stage) copy.refill(args, stage * T::kSlice);
    cuda::cp_async_wait<T::kStages - 1>();
  }
  __syncthreads();
  WarpProduct<T> product;
  product.start(shared, warp / T::kWarpsN % T::kWarpsM, warp % T::kWarpsN, 0, lane);
  product.clear();
  std::uint32_t a[2][T::kBlocksM][4];
  std::uint32_t b[2][T::kPairs][4];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int load = 0; load < T::kLoads; ++load) product.load_in_order(load, a[half], b[half], 0, half);
  }
  std::uint32_t slot = 0;
#pragma unroll 1
  for (int slice = 0; slice < slices; ++slice) {
    std::uint32_t next_slot = slot + T::kSlice;
    if (next_slot == T::kStages * T::kSlice) next_slot = 0;
    const std::uint32_t bits = copy.wanted();
#pragma unroll
    for (int step = 0; step < T::kSteps; ++step) {
      const bool last_step = step == T::kSteps - 1;
      const int now = step & 1;
      if (last_step && kWith >= kCopies) cuda::cp_async_wait<T::kStages - 2>();
      if (last_step && kWith >= kBarriers) __syncthreads();
#pragma unroll
      for (int m = 0; m < T::kBlocksM; ++m) {
#pragma unroll
        for (int i = 0; i < T::kBlocksN; ++i) {
          const int n = m % 2 == 0 ? i : T::kBlocksN - 1 - i;
          product.multiply(m, n, a[now][m], b[now][n / 2]);
          const int done = m * T::kBlocksN + i;
          if (kWith >= kLoads) {
#pragma unroll
            for (int load = 0; load < T::kLoads; ++load) {
              if (T::load_position(load) == done) product.load_in_order(load, a[now ^ 1], b[now ^ 1], last_step ? next_slot : slot, last_step ? 0 : step + 1);
            }
          }
          if (kWith >= kCopies && last_step) {
#pragma unroll
            for (int part = 0; part < T::kParts; ++part) {
              if (T::copy_position(part) == done) copy.copy_part(part, slot, bits);
            }
          }
        }
      }
    }
    slot = next_slot;
    if (kWith >= kCopies) copy.next_slice(args);
  }
  int sum = 0;
#pragma unroll
  for (int i = 0; i < T::kProducts * 4; ++i) sum ^= product.acc[i / 4 / T::kBlocksN][i / 4 % T::kBlocksN][i % 4];
  if (sum == 0x5eed1e) out[0] = sum;
}

__device__ std::uint64_t mix(std::uint64_t z) {  // splitmix64
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Sums of eight uniform numbers: nearly Gaussian, sigma about 34.
__global__ void fill(std::int8_t* to, std::int64_t count) {
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += std::int64_t(gridDim.x) * blockDim.x) {
    const std::uint64_t bits = mix(std::uint64_t(i));
    int sum = 0;
    for (int j = 0; j < 8; ++j) sum += int((bits >> (8 * j)) & 255);
    to[i] = std::int8_t((sum - 1020) / 6);
  }
}

template <class T, int kWith>
double measure(const std::int8_t* codes, int* out, int sms) {
  // Twelve tiles of K = 4608 for every CTA, as in a real product of that depth, but for the epilogue.
  constexpr int kDepth = 4608;
  constexpr int kTilesPerCta = 12;
  const int ctas = sms * T::kMinCtas;
  GemmArgs args{};
  constexpr int kTilesN = 48;
  const int tiles_m = ctas * kTilesPerCta / kTilesN;
  args.order = tile_order_of(tiles_m, 0, kTilesN, 12);
  args.tiles = tiles_m * kTilesN;
  args.n = kTilesN * T::kN;
  args.k = args.k_per_split = kDepth;
  args.operand[0].m = tiles_m * T::kM;
  args.operand[0].x = codes;
  args.operand[0].w = codes + std::int64_t(args.operand[0].m) * kDepth;
  args.operand[0].x_stride = args.operand[0].w_stride = kDepth;
  const int slices = kDepth / T::kK * kTilesPerCta;
  const auto kernel = &loop<T, kWith>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes);
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  float ms = 0;
  for (int round = 0; round < 2; ++round) {
    cudaEventRecord(begin);
    kernel<<<ctas, T::kThreads, T::kSharedBytes>>>(args, slices, out);
    cudaEventRecord(end);
    if (cudaEventSynchronize(end) != cudaSuccess) {
      std::printf("  (%s)", cudaGetErrorString(cudaGetLastError()));
      return 0;
    }
    cudaEventElapsedTime(&ms, begin, end);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return 2.0 * T::kM * T::kN * T::kK * slices * ctas / ms / 1e9;
}

template <class T>
void row(const char* name, const std::int8_t* codes, int* out, int sms) {
  std::printf("%-34s products %5.0f", name, measure<T, kProducts>(codes, out, sms));
  std::printf("  +loads %5.0f", measure<T, kLoads>(codes, out, sms));
  std::printf("  +barriers %5.0f", measure<T, kBarriers>(codes, out, sms));
  std::printf("  +copies %5.0f TOPS\n", measure<T, kCopies>(codes, out, sms));
  std::fflush(stdout);
}

template <class T>
void copies(const char* name, const std::int8_t* codes, int* out, int sms) {
  std::printf("%-34s +copies %5.0f TOPS\n", name, measure<T, kCopies>(codes, out, sms));
  std::fflush(stdout);
}

}  // namespace

int main() {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) {
    std::printf("gemm_mma_anatomy: no GPU\n");
    return 3;
  }
  std::int8_t* codes = nullptr;
  int* out = nullptr;
  const std::size_t count = std::size_t(128) << 20;
  cudaMalloc(&codes, count);
  cudaMalloc(&out, 64);
  fill<<<4096, 256>>>(codes, std::int64_t(count));
  const int sms = properties.multiProcessorCount;
  constexpr Fragments kDoubled = Fragments::doubled;
  row<MmaTile<128, 256, 64, 2, 4, 1, 4, 1>>("128x256x64, 4 slots", codes, out, sms);
  row<MmaTile<128, 128, 64, 2, 2, 1, 3, 2>>("128x128x64, 3 slots, 2 CTAs", codes, out, sms);
  copies<MmaTile<128, 256, 64, 2, 4, 1, 3, 1>>("128x256x64, 3 slots", codes, out, sms);
  copies<MmaTile<128, 256, 64, 2, 4, 1, 6, 1>>("6 slots", codes, out, sms);
  copies<MmaTile<128, 256, 64, 2, 4, 1, 4, 1, kDoubled, Schedule<1, 9, 1>>>("4 slots, a burst behind the barrier", codes, out, sms);
  copies<MmaTile<128, 256, 64, 2, 4, 1, 4, 1, kDoubled, Schedule<2, 16, 2>>>("4 slots, evenly", codes, out, sms);
  copies<MmaTile<128, 256, 128, 2, 4, 1, 2, 1>>("128x256x128, 2 slots", codes, out, sms);
  return 0;
}
