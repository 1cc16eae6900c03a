// Times every mma.sync W8A8 kernel of the catalogue on the layers of the 4608-wide DiT, beside the register-only ceiling of the same run.
//   gemm_mma_probe [--large] [--small] [--ceiling] [--budget-99k] [--kernel ID-PART] [--raster]
// Gaussian codes (absmax-quantised rows have sigma about 34), operands rotated through more than the L2 cache, CUDA graphs, medians.
// TOPS = 2·M·N·K / t. Without options: --ceiling --large --small.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cuda/mma_s8.cuh"
#include "device/cuda_check.h"
#include "device/device.h"
#include "ops/linear/catalog.h"
#include "ops/linear/choose.h"

namespace octavo {
namespace {

constexpr int kSharedBytesSm86 = 101376;  // what one CTA may have on sm_86, 89, 120

struct Options {
  bool large = false, small = false, ceiling = false, budget_99k = false, raster = false;
  std::string kernel{};
};

// ---- the ceiling: products whose operands never leave registers -------------------------------------------------------------------------

constexpr int kIndependent = 8;

__global__ void multiply_registers(int* out, int iterations) {
  const std::uint32_t a[4] = {threadIdx.x * 2654435761u, threadIdx.x * 40503u, threadIdx.x * 69621u, threadIdx.x * 16807u};
  const std::uint32_t b[2] = {threadIdx.x * 7919u, threadIdx.x * 104729u};
  int c[kIndependent][4] = {};
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int j = 0; j < kIndependent; ++j) cuda::mma_m16n8k32_s8(c[j], a, b[0], b[1]);
  }
  int sum = 0;
#pragma unroll
  for (int j = 0; j < kIndependent; ++j) sum += c[j][0] ^ c[j][1] ^ c[j][2] ^ c[j][3];
  if (sum == 0x5eed) out[0] = sum;
}

// The same with operands like those of a real product: random codes, changing from one product to the next. Draws the power that real data
// draws, so that after a second it shows the clock a long product can have.
constexpr int kSets = 4;

__global__ void multiply_random_registers(int* out, int iterations) {
  std::uint32_t a[kSets][4];
  std::uint32_t b[kSets][2];
  std::uint32_t seed = blockIdx.x * 7919u + threadIdx.x;
  const auto next = [&seed] { return seed = seed * 1664525u + 1013904223u, (seed >> 3) & 0xbfbfbfbfu; };  // bytes of moderate size, both signs
#pragma unroll
  for (int s = 0; s < kSets; ++s) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[s][i] = next();
#pragma unroll
    for (int i = 0; i < 2; ++i) b[s][i] = next();
  }
  int c[kIndependent][4] = {};
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int j = 0; j < kIndependent; ++j) cuda::mma_m16n8k32_s8(c[j], a[j % kSets], b[(j + j / kSets) % kSets][0], b[(j + j / kSets) % kSets][1]);
  }
  int sum = 0;
#pragma unroll
  for (int j = 0; j < kIndependent; ++j) sum += c[j][0] ^ c[j][1] ^ c[j][2] ^ c[j][3];
  if (sum == 0x5eed) out[0] = sum;
}

// ---- data -----------------------------------------------------------------------------------------------------------------------------

__device__ std::uint64_t mix(std::uint64_t z) {  // splitmix64
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Gaussian codes, two at a time (Box-Muller).
__global__ void fill_codes(std::int8_t* to, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = 2 * (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x); i < count; i += 2 * std::int64_t(gridDim.x) * blockDim.x) {
    const std::uint64_t bits = mix(seed + std::uint64_t(i));
    const float radius = 34.0f * sqrtf(-2.0f * logf((float(bits >> 40) + 1.0f) * 0x1p-24f));
    const float angle = 6.2831853f * float((bits >> 8) & 0xffffff) * 0x1p-24f;
    to[i] = std::int8_t(fminf(fmaxf(rintf(radius * cosf(angle)), -127.0f), 127.0f));
    to[i + 1] = std::int8_t(fminf(fmaxf(rintf(radius * sinf(angle)), -127.0f), 127.0f));
  }
}

__global__ void fill_scales(float* to, std::int64_t count, float base) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = base * (1.0f + float(i % 97) / 97.0f);
}

struct Pool {
  std::int8_t* codes = nullptr;  // x and w are windows of this
  float* scales = nullptr;
  std::uint16_t* y = nullptr;
  void* workspace = nullptr;
};

constexpr std::int64_t kCodes = std::int64_t(1280) << 20;
constexpr std::int64_t kScales = 1 << 20;
constexpr std::int64_t kOutputs = std::int64_t(1536) << 20;  // bytes
constexpr std::int64_t kWorkspace = std::int64_t(512) << 20;

Pool make_pool() {
  Pool pool;
  cuda_check(cudaMalloc(&pool.codes, kCodes), "codes");
  cuda_check(cudaMalloc(&pool.scales, kScales * 4), "scales");
  cuda_check(cudaMalloc(&pool.y, kOutputs), "outputs");
  cuda_check(cudaMalloc(&pool.workspace, kWorkspace), "workspace");
  fill_codes<<<4096, 256>>>(pool.codes, kCodes, 42);
  fill_scales<<<unsigned(kScales / 256), 256>>>(pool.scales, kScales, 1e-4f);
  cuda_check(cudaDeviceSynchronize(), "fill");
  return pool;
}

GemmProblem problem_of(const Pool& pool, std::int64_t m, std::int64_t n, std::int64_t k, int turn) {
  const auto window = [&](std::int64_t bytes, std::int64_t total) {
    return (std::int64_t(turn) * ((bytes + 255) / 256 * 256)) % std::max<std::int64_t>(total - bytes, 1) / 256 * 256;
  };
  GemmProblem problem{.n = n, .k = k, .out = DType::bf16};
  GemmOperands& g = problem.group[0];
  const std::int64_t half = kCodes / 2;
  g.x = pool.codes + window(m * k, half);
  g.w = pool.codes + half + window(n * k, half);
  g.x_stride = g.w_stride = k;
  g.x_scale = pool.scales;
  g.w_scale = pool.scales + kScales / 2;
  g.y = reinterpret_cast<char*>(pool.y) + window(m * n * 2, kOutputs);
  g.y_stride = n;
  g.m = m;
  return problem;
}

// Seconds per call, median of `samples` graph replays of `calls` calls each.
double time_kernel(const GemmKernel& kernel, const Pool& pool, std::int64_t m, std::int64_t n, std::int64_t k, const GemmLaunch& how, int calls, int samples) {
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreate(&stream), "stream");
  kernel.launch(problem_of(pool, m, n, k, 0), how, pool.workspace, stream);
  cuda_check(cudaStreamSynchronize(stream), std::string(kernel.id).c_str());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < calls; ++i) kernel.launch(problem_of(pool, m, n, k, i), how, pool.workspace, stream);
  cuda_check(cudaStreamEndCapture(stream, &graph), "capture end");
  cuda_check(cudaGraphInstantiate(&ready, graph, 0), "instantiate");
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cuda_check(cudaEventCreate(&begin), "event");
  cuda_check(cudaEventCreate(&end), "event");
  cuda_check(cudaGraphLaunch(ready, stream), "warm up");
  std::vector<double> seconds;
  for (int i = 0; i < samples; ++i) {
    cuda_check(cudaEventRecord(begin, stream), "record");
    cuda_check(cudaGraphLaunch(ready, stream), "replay");
    cuda_check(cudaEventRecord(end, stream), "record");
    cuda_check(cudaEventSynchronize(end), std::string(kernel.id).c_str());
    float ms = 0;
    cuda_check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    seconds.push_back(double(ms) * 1e-3 / calls);
  }
  std::sort(seconds.begin(), seconds.end());
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  return seconds[seconds.size() / 2];
}

double measure_ceiling(const DeviceCaps& caps) {
  int* out = nullptr;
  cuda_check(cudaMalloc(&out, 64), "ceiling");
  double best = 0;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  for (const int warps : {4, 8, 16}) {
    const int iterations = 20000;
    const int blocks = caps.sm_count * 2;
    for (int round = 0; round < 2; ++round) {
      cudaEventRecord(begin);
      multiply_registers<<<unsigned(blocks), unsigned(32 * warps)>>>(out, iterations);
      cudaEventRecord(end);
      cuda_check(cudaEventSynchronize(end), "ceiling");
    }
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    const double tops = 2.0 * 16 * 8 * 32 * kIndependent * iterations * blocks * warps / ms / 1e9;
    std::printf("ceiling: registers only, %2d warps x 2 CTAs per SM: %.0f TOPS\n", warps, tops);
    best = std::max(best, tops);
  }
  constexpr int kWarps = 8;
  const int iterations = 20000;
  const int blocks = caps.sm_count * 2;
  double spent = 0;
  float ms = 0;
  while (spent < 1.0) {  // sustained: the last launch of a second
    cudaEventRecord(begin);
    multiply_random_registers<<<unsigned(blocks), unsigned(32 * kWarps)>>>(out, iterations);
    cudaEventRecord(end);
    cuda_check(cudaEventSynchronize(end), "ceiling");
    cudaEventElapsedTime(&ms, begin, end);
    spent += double(ms) * 1e-3;
  }
  std::printf("ceiling: registers only, random operands, after one second: %.0f TOPS\n",
              2.0 * 16 * 8 * 32 * kIndependent * iterations * blocks * kWarps / ms / 1e9);
  cudaFree(out);
  return best;
}

struct Layer {
  const char* name;
  std::int64_t n, k;
};
constexpr Layer kLayers[] = {{"qkv", 13824, 4608}, {"o", 4608, 4608}, {"w1|w3", 24576, 4608}, {"w2", 4608, 12288}};

bool wanted(const GemmKernel& kernel, const Options& options, const DeviceCaps& caps) {
  if (kernel.family == "generic" || kernel.arch.min_sm > caps.sm || kernel.arch.max_sm < caps.sm) return false;
  if (options.budget_99k && (kernel.shared_bytes > kSharedBytesSm86 || kernel.config.ctas_per_sm > 1)) return false;
  return options.kernel.empty() || kernel.id.find(options.kernel) != std::string_view::npos;
}

void run_large(const Options& options, const DeviceCaps& caps, const Pool& pool, double ceiling) {
  std::vector<const GemmKernel*> kernels;
  for (const GemmKernel& kernel : gemm_catalog()) {
    if (wanted(kernel, options, caps) && kernel.config.tile_m >= 64 && kernel.config.split_k == 1 && kernel.family != "mma_sm75") kernels.push_back(&kernel);
  }
  std::printf("\nTOPS; columns:");
  for (std::size_t i = 0; i < kernels.size(); ++i) std::printf(" [%zu] %s", i, std::string(kernels[i]->id).c_str());
  std::printf("\n%6s %-6s", "M", "layer");
  for (std::size_t i = 0; i < kernels.size(); ++i) std::printf(" %6s", ("[" + std::to_string(i) + "]").c_str());
  std::printf("    best  of ceiling  estimate's choice\n");
  std::vector<double> sums(kernels.size(), 0);
  double best_sum = 0;
  double best_large = 0;
  int large = 0;
  for (const std::int64_t m : {2304, 4096, 4352, 16384}) {
    for (const Layer& layer : kLayers) {
      const double ops = 2.0 * double(m) * double(layer.n) * double(layer.k);
      const int calls = ops > 2e12 ? 2 : 4;
      std::printf("%6lld %-6s", static_cast<long long>(m), layer.name);
      double best = 0;
      const GemmProblem problem = problem_of(pool, m, layer.n, layer.k, 0);
      for (std::size_t i = 0; i < kernels.size(); ++i) {
        if (!kernels[i]->accepts(problem)) {
          std::printf(" %6s", "-");
          continue;
        }
        const double tops = ops / time_kernel(*kernels[i], pool, m, layer.n, layer.k, default_launch(*kernels[i], problem, caps), calls, 5) / 1e12;
        sums[i] += tops / 16;
        best = std::max(best, tops);
        std::printf(" %6.0f", tops);
      }
      const GemmKernel* choice = chosen(problem, caps);
      std::printf("  %6.0f  %5.1f %%     %s\n", best, 100 * best / ceiling, choice == nullptr ? "-" : std::string(choice->id).c_str());
      std::fflush(stdout);
      best_sum += best / 16;
      if (m >= 4096) {
        best_large += best;
        ++large;
      }
    }
  }
  std::printf("%6s %-6s", "mean", "");
  for (const double sum : sums) std::printf(" %6.0f", sum);
  std::printf("  %6.0f  %5.1f %%\n", best_sum, 100 * best_sum / ceiling);
  std::printf("mean of M >= 4096: %.0f TOPS, %.1f %% of the ceiling\n", best_large / large, 100 * best_large / large / ceiling);
}

void run_raster(const Options& options, const DeviceCaps& caps, const Pool& pool) {
  std::printf("\nraster groups (TOPS)\n");
  for (const GemmKernel& kernel : gemm_catalog()) {
    if (!wanted(kernel, options, caps) || kernel.config.tile_m * kernel.config.tile_n < 128 * 256 || kernel.config.stages > 3 || kernel.family == "mma_sm75")
      continue;
    for (const std::int64_t m : {4096, 16384}) {
      for (const Layer& layer : kLayers) {
        std::printf("%-24s %6lld %-6s", std::string(kernel.id).c_str(), static_cast<long long>(m), layer.name);
        const double ops = 2.0 * double(m) * double(layer.n) * double(layer.k);
        for (const int group : {2, 4, 8, 16, 32, 64})
          std::printf("  g%-2d %5.0f", group, ops / time_kernel(kernel, pool, m, layer.n, layer.k, {.raster_group = group}, 2, 3) / 1e12);
        std::printf("   default g%d\n", default_launch(kernel, problem_of(pool, m, layer.n, layer.k, 0), caps).raster_group);
      }
    }
  }
}

void run_small(const Options& options, const DeviceCaps& caps, const Pool& pool) {
  std::printf("\nfew rows: microseconds, best kernel; share of the time that reading w alone takes at 4.3 TB/s\n");
  for (const Layer& layer : kLayers) {
    const double floor_us = double(layer.n) * double(layer.k) / 4.3e6;
    double before = 0;
    for (const std::int64_t m : {1, 2, 4, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 80, 96, 112, 127, 128, 129, 160, 192, 224, 255, 256}) {
      const GemmProblem problem = problem_of(pool, m, layer.n, layer.k, 0);
      std::vector<std::pair<double, const GemmKernel*>> times;
      for (const GemmKernel& kernel : gemm_catalog()) {
        if (!wanted(kernel, options, caps) || !kernel.accepts(problem) || kernel.config.tile_m > 4 * std::max<std::int64_t>(m, 16) ||
            kernel.family == "mma_sm75")
          continue;
        times.emplace_back(time_kernel(kernel, pool, m, layer.n, layer.k, default_launch(kernel, problem, caps), 24, 5) * 1e6, &kernel);
      }
      std::sort(times.begin(), times.end());
      if (times.empty()) continue;
      const GemmKernel* choice = chosen(problem, caps);
      double chosen_us = 0;
      for (const auto& entry : times) {
        if (entry.second == choice) chosen_us = entry.first;
      }
      std::printf("%-6s M %3lld  %7.2f us  floor %5.2f  step %4.2f  estimate's %-28s %7.2f  |", layer.name, static_cast<long long>(m), times[0].first, floor_us,
                  before > 0 ? times[0].first / before : 1.0, choice == nullptr ? "-" : std::string(choice->id).c_str(), chosen_us);
      for (std::size_t i = 0; i < std::min<std::size_t>(times.size(), 4); ++i)
        std::printf(" %s %.2f", std::string(times[i].second->id.substr(5)).c_str(), times[i].first);
      std::printf("\n");
      before = times[0].first;
    }
    std::fflush(stdout);
  }
}

int run(const Options& options) {
  const GpuList list = list_gpus();
  if (list.gpus.empty()) {
    std::printf("gemm_mma_probe: %s\n", list.reason.c_str());
    return 3;
  }
  const DeviceCaps& caps = list.gpus.front();
  std::printf("%s, sm_%d, %d SMs, L2 %.0f MB, %d kHz\n", caps.name.c_str(), caps.sm, caps.sm_count, double(caps.l2_bytes) / 1e6, caps.clock_khz);
  const double ceiling = options.ceiling || options.large ? measure_ceiling(caps) : 0;
  const Pool pool = make_pool();
  if (options.large) run_large(options, caps, pool, ceiling);
  if (options.raster) run_raster(options, caps, pool);
  if (options.small) run_small(options, caps, pool);
  return 0;
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  octavo::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--large")
      options.large = true;
    else if (arg == "--small")
      options.small = true;
    else if (arg == "--ceiling")
      options.ceiling = true;
    else if (arg == "--budget-99k")
      options.budget_99k = true;
    else if (arg == "--raster")
      options.raster = true;
    else if (arg == "--kernel" && i + 1 < argc)
      options.kernel = argv[++i];
    else {
      std::printf("usage: gemm_mma_probe [--large] [--small] [--ceiling] [--budget-99k] [--raster] [--kernel ID-PART]\n");
      return 2;
    }
  }
  if (!options.large && !options.small && !options.raster && !options.ceiling) options.ceiling = options.large = options.small = true;
  try {
    return octavo::run(options);
  } catch (const std::exception& error) {
    std::printf("gemm_mma_probe: %s\n", error.what());
    return 1;
  }
}
