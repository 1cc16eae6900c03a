// Times every mma.sync W8A8 kernel of the catalogue on the layers of the 4608-wide DiT, beside the register-only ceiling of the same run.
//   gemm_mma_probe [--large] [--small] [--ceiling] [--budget-99k] [--kernel ID-PART] [--raster] [--compare] [--sweep] [--rounds 12] [--json FILE]
// --compare: the kernels that fit sm_86 (99 KiB, one CTA per SM), the ceiling, CUTLASS 2.x and cuBLASLt INT8 with a dequantisation, on the 16 shapes
//            of the issue, timed in turns in one run.
// --sweep:   M = 1 … 256: every kernel of the catalogue, the estimate's choice, cuBLASLt bf16; the step from each M to the next.
// Peers are those that were linked (bench/peers/README.md); what is missing is named. JSON: one line per figure.
// Gaussian codes (absmax-quantised rows have sigma about 34), operands rotated through more than the L2 cache, CUDA graphs, medians.
// TOPS = 2·M·N·K / t. Without options: --ceiling --large --small.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cublaslt_peers.h"
#include "cuda/mma_s8.cuh"
#include "device/cuda_check.h"
#include "device/device.h"
#include "gemm_peer.h"
#include "ops/linear/catalog.h"
#include "ops/linear/choose.h"
#include "ops/linear/gemm_mma_kernels.h"

// CUTLASS 2.x configurations whose objects were not linked are null.
namespace octavo::bench {
#define OCTAVO_WEAK_PEER(i) __attribute__((weak)) bool cutlass_s8_sm80_##i(const PeerGemm&);
OCTAVO_WEAK_PEER(0)
OCTAVO_WEAK_PEER(1)
OCTAVO_WEAK_PEER(2)
OCTAVO_WEAK_PEER(3)
OCTAVO_WEAK_PEER(4)
OCTAVO_WEAK_PEER(5)
OCTAVO_WEAK_PEER(6)
OCTAVO_WEAK_PEER(7)
#undef OCTAVO_WEAK_PEER
}  // namespace octavo::bench

namespace octavo {
namespace {

const bench::Peer kCutlass2[] = {
    {"cutlass2 128x256x64 s3", bench::cutlass_s8_sm80_0}, {"cutlass2 256x128x64 s3", bench::cutlass_s8_sm80_1},
    {"cutlass2 128x128x64 s4", bench::cutlass_s8_sm80_2}, {"cutlass2 128x256x64 s4", bench::cutlass_s8_sm80_3},
    {"cutlass2 128x128x64 s5", bench::cutlass_s8_sm80_4}, {"cutlass2 128x128x128 s3", bench::cutlass_s8_sm80_5},
    {"cutlass2 128x64x64 s4", bench::cutlass_s8_sm80_6},  {"cutlass2 64x128x64 s4", bench::cutlass_s8_sm80_7},
};

constexpr int kSharedBytesSm86 = 101376;  // what one CTA may have on sm_86, 89, 120

struct Options {
  bool large = false, small = false, ceiling = false, budget_99k = false, raster = false, compare = false, sweep = false;
  int rounds = 12;
  std::string kernel{};
  std::FILE* json = nullptr;
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

// A CUDA graph of `calls` calls, replayed for a timing.
class Replay {
 public:
  Replay(const std::function<void(int turn, cudaStream_t)>& enqueue, int calls, const std::string& name) : calls_(calls), name_(name) {
    cuda_check(cudaStreamCreate(&stream_), "stream");
    enqueue(0, stream_);  // whatever a first call prepares
    cuda_check(cudaStreamSynchronize(stream_), name_.c_str());
    cudaGraph_t graph = nullptr;
    cuda_check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "capture");
    for (int i = 0; i < calls; ++i) enqueue(i, stream_);
    cuda_check(cudaStreamEndCapture(stream_, &graph), "capture end");
    cuda_check(cudaGraphInstantiate(&ready_, graph, 0), "instantiate");
    cudaGraphDestroy(graph);
    cuda_check(cudaEventCreate(&begin_), "event");
    cuda_check(cudaEventCreate(&end_), "event");
    cuda_check(cudaGraphLaunch(ready_, stream_), "warm up");
    cuda_check(cudaStreamSynchronize(stream_), name_.c_str());  // nothing of it runs beside another's timing
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  ~Replay() {
    cudaGraphExecDestroy(ready_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }

  // Seconds per call.
  double time() {
    cuda_check(cudaEventRecord(begin_, stream_), "record");
    cuda_check(cudaGraphLaunch(ready_, stream_), "replay");
    cuda_check(cudaEventRecord(end_, stream_), "record");
    cuda_check(cudaEventSynchronize(end_), name_.c_str());
    float ms = 0;
    cuda_check(cudaEventElapsedTime(&ms, begin_, end_), "elapsed");
    return double(ms) * 1e-3 / calls_;
  }

 private:
  int calls_;
  std::string name_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds per call, median of `samples` graph replays of `calls` calls each.
double time_calls(const std::function<void(int, cudaStream_t)>& enqueue, int calls, int samples, const std::string& name) {
  Replay replay(enqueue, calls, name);
  std::vector<double> seconds;
  for (int i = 0; i < samples; ++i) seconds.push_back(replay.time());
  return median(seconds);
}

std::function<void(int, cudaStream_t)> calls_of(const GemmKernel& kernel, const Pool& pool, std::int64_t m, std::int64_t n, std::int64_t k,
                                                const GemmLaunch& how) {
  return [&kernel, &pool, m, n, k, how](int turn, cudaStream_t stream) { kernel.launch(problem_of(pool, m, n, k, turn), how, pool.workspace, stream); };
}

double time_kernel(const GemmKernel& kernel, const Pool& pool, std::int64_t m, std::int64_t n, std::int64_t k, const GemmLaunch& how, int calls, int samples) {
  return time_calls(calls_of(kernel, pool, m, n, k, how), calls, samples, std::string(kernel.id));
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

// ---- the issue's comparisons ------------------------------------------------------------------------------------------------------------

double geometric_mean(const std::vector<double>& ratios) {
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  return ratios.empty() ? 0 : std::exp(sum / double(ratios.size()));
}

struct Entry {
  std::string name;
  std::unique_ptr<Replay> replay{};
  double operations = 0;
  std::vector<double> seconds{};
  double tops() const { return operations / median(seconds) / 1e12; }
};

// Sustained rates of one run. The ceiling takes its turns among the products, so that it meets the same clock.
void run_compare(const Options& options, const DeviceCaps& caps, const Pool& pool) {
  std::string why;
  const auto lt = bench::CublasLt::load(why);
  if (!lt) std::printf("cuBLASLt: %s\n", why.c_str());
  std::int32_t* acc = nullptr;
  constexpr std::int64_t kAcc = std::int64_t(16384) * 24576 * 4;
  if (lt) cuda_check(cudaMalloc(&acc, kAcc), "accumulators");
  int* ceiling_out = nullptr;
  cuda_check(cudaMalloc(&ceiling_out, 64), "ceiling");
  std::vector<const GemmKernel*> kernels;
  for (const GemmKernel& kernel : gemm_catalog()) {
    const bool fits = kernel.shared_bytes <= kSharedBytesSm86 && kernel.config.ctas_per_sm == 1;
    if (kernel.family == "mma_sm80" && fits && kernel.config.tile_m >= 64 && kernel.config.split_k == 1 && kernel.config.warps_k == 1)
      kernels.push_back(&kernel);
  }
  for (const bench::Peer& peer : kCutlass2) {
    if (peer.run == nullptr) std::printf("%s: not linked\n", peer.name);
  }
  std::map<std::string, std::vector<double>> table;  // TOPS of the 16 shapes
  std::vector<double> share_large, share_random_large, tops_large, over_cutlass, over_cublas;
  for (const std::int64_t m : {2304, 4096, 4352, 16384}) {
    for (const Layer& layer : kLayers) {
      const double operations = 2.0 * double(m) * double(layer.n) * double(layer.k);
      const int calls = std::max(2, int(2.5e12 / operations));
      std::vector<Entry> entries;
      const auto add = [&](const std::string& name, const std::function<void(int, cudaStream_t)>& enqueue) {
        entries.push_back({.name = name, .replay = std::make_unique<Replay>(enqueue, calls, name), .operations = operations});
      };
      for (const GemmKernel* kernel : kernels) {
        const GemmProblem problem = problem_of(pool, m, layer.n, layer.k, 0);
        if (kernel->accepts(problem)) add(std::string(kernel->id), calls_of(*kernel, pool, m, layer.n, layer.k, default_launch(*kernel, problem, caps)));
      }
      const std::size_t ours = entries.size();
      for (const bench::Peer& peer : kCutlass2) {
        if (peer.run == nullptr) continue;
        const auto with_raster = [&](int raster) {
          return [&pool, &layer, peer, m, raster](int turn, cudaStream_t stream) {
            const GemmOperands g = problem_of(pool, m, layer.n, layer.k, turn).group[0];
            const bench::PeerGemm p{int(m), int(layer.n), int(layer.k), g.x, g.w, g.x_scale, g.w_scale, g.y, pool.workspace, std::size_t(kWorkspace),
                                    raster, stream};
            if (!peer.run(p)) throw std::runtime_error(std::string(peer.name) + " refused");
          };
        };
        int best = 1;
        double best_seconds = 1e30;
        for (const int raster : {1, 4, 8}) {
          const double seconds = time_calls(with_raster(raster), calls, 3, peer.name);
          if (seconds < best_seconds) best_seconds = seconds, best = raster;
        }
        add(std::string(peer.name) + " raster " + std::to_string(best), with_raster(best));
      }
      const std::size_t peers_end = entries.size();
      if (lt) {
        const auto operands = [&pool, &layer, m, acc](int turn) {
          const GemmOperands g = problem_of(pool, m, layer.n, layer.k, turn).group[0];
          return bench::LtOperands{int(m), int(layer.n), int(layer.k), g.x, g.w, g.x_scale, g.w_scale, g.y, acc};
        };
        // The plan enqueues on its own stream, which the graph's capture joins: so the plan is made for the stream of each call.
        std::map<cudaStream_t, std::function<void(const bench::LtOperands&)>> plans;
        const auto enqueue = [&, operands](int turn, cudaStream_t stream) {
          auto& plan = plans[stream];
          if (!plan) plan = lt->prepare(bench::LtKind::int8_dequant, operands(0), pool.workspace, std::size_t(64) << 20, stream, why);
          if (!plan) throw std::runtime_error("cuBLASLt int8: " + why);
          plan(operands(turn));
        };
        add("cublaslt int8 + dequantise", enqueue);
      }
      // The ceiling, constant and random operands: about as long as a product.
      const int blocks = caps.sm_count * 2;
      constexpr int kWarps = 8;
      const int iterations = 4000;
      const double per_launch = 2.0 * 16 * 8 * 32 * kIndependent * iterations * blocks * kWarps;
      const int launches = std::max(1, int(operations * calls / per_launch));
      entries.push_back({.name = "ceiling", .operations = per_launch});
      entries.back().replay = std::make_unique<Replay>(
          [&](int, cudaStream_t stream) { multiply_registers<<<unsigned(blocks), 32 * kWarps, 0, stream>>>(ceiling_out, iterations); }, launches, "ceiling");
      entries.push_back({.name = "ceiling, random operands", .operations = per_launch});
      entries.back().replay = std::make_unique<Replay>(
          [&](int, cudaStream_t stream) { multiply_random_registers<<<unsigned(blocks), 32 * kWarps, 0, stream>>>(ceiling_out, iterations); }, launches,
          "ceiling, random operands");
      std::vector<std::size_t> order(entries.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::mt19937 random(1);
      for (int round = 0; round < options.rounds; ++round) {
        std::shuffle(order.begin(), order.end(), random);  // what ran before decides the clock
        for (const std::size_t i : order) entries[i].seconds.push_back(entries[i].replay->time());
      }
      double best_ours = 0, best_cutlass = 0, cublas = 0, ceiling = 0, random_ceiling = 0;
      std::printf("\nM %lld %s\n", static_cast<long long>(m), layer.name);
      for (std::size_t i = 0; i < entries.size(); ++i) {
        const Entry& e = entries[i];
        const double tops = e.tops();
        std::printf("  %-36s %8.1f us  %6.0f TOPS\n", e.name.c_str(), median(e.seconds) * 1e6, tops);
        if (options.json != nullptr) {
          std::fprintf(options.json,
                       "{\"what\": \"compare\", \"m\": %lld, \"layer\": \"%s\", \"n\": %lld, \"k\": %lld, \"kernel\": \"%s\", \"us\": %.2f, \"tops\": %.1f}\n",
                       static_cast<long long>(m), layer.name, static_cast<long long>(layer.n), static_cast<long long>(layer.k), e.name.c_str(),
                       median(e.seconds) * 1e6, tops);
        }
        // Experiments are no part of "ours" until they are in the catalogue.
        if (i < ours) best_ours = std::max(best_ours, tops);
        if (i >= ours && i < peers_end) best_cutlass = std::max(best_cutlass, tops);
        if (e.name.rfind("cublaslt", 0) == 0) cublas = tops;
        if (e.name == "ceiling") ceiling = tops;
        if (e.name == "ceiling, random operands") random_ceiling = tops;
        const bool is_peer = i >= ours && i < peers_end;
        table[is_peer ? e.name.substr(0, e.name.find(" raster")) : e.name].push_back(tops);
      }
      if (m >= 4096) share_large.push_back(best_ours / ceiling), share_random_large.push_back(best_ours / random_ceiling), tops_large.push_back(best_ours);
      if (best_cutlass > 0) over_cutlass.push_back(best_ours / best_cutlass);
      if (cublas > 0) over_cublas.push_back(best_ours / cublas);
      std::fflush(stdout);
    }
  }
  std::printf("\nTOPS          2304: qkv o w1w3 w2 | 4096 | 4352 | 16384 | mean\n");
  for (const auto& [name, tops] : table) {
    std::printf("%-32s", name.c_str());
    double sum = 0;
    for (const double t : tops) std::printf(" %4.0f", t), sum += t;
    std::printf("  %6.1f\n", sum / double(tops.size()));
  }
  double sum = 0, share = 0, share_random = 0;
  for (std::size_t i = 0; i < tops_large.size(); ++i) sum += tops_large[i], share += share_large[i], share_random += share_random_large[i];
  const double count = double(tops_large.size());
  std::printf("\nM >= 4096: mean %.0f TOPS, %.1f %% of the ceiling (%.1f %% of the ceiling with random operands)\n", sum / count, 100 * share / count,
              100 * share_random / count);
  std::printf("over the best CUTLASS 2.x of each shape: %.3f (%zu shapes); over cuBLASLt INT8 + dequantise: %.3f (%zu shapes)\n", geometric_mean(over_cutlass),
              over_cutlass.size(), geometric_mean(over_cublas), over_cublas.size());
  if (options.json != nullptr) {
    std::fprintf(options.json,
                 "{\"what\": \"summary\", \"tops_large\": %.1f, \"of_ceiling\": %.4f, \"of_random_ceiling\": %.4f, \"over_cutlass2\": %.4f, "
                 "\"over_cublaslt_int8\": %.4f}\n",
                 sum / count, share / count, share_random / count, geometric_mean(over_cutlass), geometric_mean(over_cublas));
  }
  cudaFree(acc);
  cudaFree(ceiling_out);
}

// The small sizes, everything that the tuner could pick; peers in the same turn.
void run_sweep(const Options& options, const DeviceCaps& caps, const Pool& pool) {
  std::string why;
  const auto lt = bench::CublasLt::load(why);
  if (!lt) std::printf("cuBLASLt: %s\n", why.c_str());
  constexpr int kSets = 3;  // of bf16 operands; with int8's rotation both read w from DRAM
  constexpr std::int64_t kMost = std::int64_t(13824) * 4608;
  std::vector<void*> w_bf16(kSets, nullptr);
  void* x_bf16 = nullptr;
  if (lt) {
    for (void*& w : w_bf16) cuda_check(cudaMalloc(&w, kMost * 2), "bf16 weights");
    cuda_check(cudaMalloc(&x_bf16, std::int64_t(256) * 12288 * 2), "bf16 rows");
  }
  double worst_step = 0, worst_estimate_step = 0, least_ratio = 1e30;
  for (const Layer& layer : kLayers) {
    if (layer.n * layer.k > kMost) continue;  // w1|w3: twice qkv and no other behaviour; three layers keep the run short
    for (int i = 0; lt && i < kSets; ++i) bench::codes_to_bf16(pool.codes + std::int64_t(i) * (128 << 20), w_bf16[std::size_t(i)], layer.n * layer.k, nullptr);
    if (lt) bench::codes_to_bf16(pool.codes, x_bf16, 256 * layer.k, nullptr);
    cuda_check(cudaDeviceSynchronize(), "bf16");
    double before = 0, estimate_before = 0;
    for (const std::int64_t m : {1, 2, 4, 8, 12, 16, 17, 24, 32, 33, 48, 64, 65, 80, 96, 97, 112, 128, 129, 144, 160, 192, 224, 256}) {
      const GemmProblem problem = problem_of(pool, m, layer.n, layer.k, 0);
      const GemmKernel* choice = chosen(problem, caps);
      const GemmKernel* best = nullptr;
      double best_us = 1e30, choice_us = 0;
      for (const GemmKernel* kernel : gemm_candidates(problem, caps)) {
        if (kernel->family == "generic" || kernel->family == "mma_sm75") continue;
        if (kernel != choice && kernel->config.tile_m > 4 * std::max<std::int64_t>(m, 32)) continue;
        const double us = time_kernel(*kernel, pool, m, layer.n, layer.k, default_launch(*kernel, problem, caps), 16, 5) * 1e6;
        if (us < best_us) best_us = us, best = kernel;
        if (kernel == choice) choice_us = us;
      }
      double bf16_us = 0;
      if (lt) {
        std::map<cudaStream_t, std::function<void(const bench::LtOperands&)>> plans;
        const auto operands = [&](int turn) {
          return bench::LtOperands{int(m), int(layer.n), int(layer.k), x_bf16, w_bf16[std::size_t(turn % kSets)], nullptr, nullptr, pool.y, nullptr};
        };
        bf16_us = 1e6 * time_calls(
                            [&](int turn, cudaStream_t stream) {
                              auto& plan = plans[stream];
                              if (!plan) plan = lt->prepare(bench::LtKind::bf16, operands(0), pool.workspace, std::size_t(64) << 20, stream, why);
                              if (!plan) throw std::runtime_error("cuBLASLt bf16: " + why);
                              plan(operands(turn));
                            },
                            15, 5, "cublaslt bf16");
      }
      const double step = before > 0 ? best_us / before : 1;
      const double estimate_step = estimate_before > 0 ? choice_us / estimate_before : 1;
      std::printf("%-5s M %3lld  best %-26s %7.2f us  step %4.2f | estimate %-26s %7.2f us  step %4.2f | cublaslt bf16 %7.2f us  %4.2f x%s\n", layer.name,
                  static_cast<long long>(m), std::string(best->id).c_str(), best_us, step, std::string(choice->id).c_str(), choice_us, estimate_step, bf16_us,
                  bf16_us / best_us, step > 1.3 || estimate_step > 1.3 ? "  STEP" : "");
      if (options.json != nullptr) {
        std::fprintf(options.json,
                     "{\"what\": \"sweep\", \"m\": %lld, \"layer\": \"%s\", \"n\": %lld, \"k\": %lld, \"best\": \"%s\", \"us\": %.2f, \"step\": %.3f, "
                     "\"estimate\": \"%s\", "
                     "\"estimate_us\": %.2f, \"estimate_step\": %.3f, \"cublaslt_bf16_us\": %.2f}\n",
                     static_cast<long long>(m), layer.name, static_cast<long long>(layer.n), static_cast<long long>(layer.k), std::string(best->id).c_str(),
                     best_us, step, std::string(choice->id).c_str(), choice_us, estimate_step, bf16_us);
      }
      worst_step = std::max(worst_step, step);
      worst_estimate_step = std::max(worst_estimate_step, estimate_step);
      if (bf16_us > 0) least_ratio = std::min(least_ratio, bf16_us / best_us);
      before = best_us;
      estimate_before = choice_us;
    }
    std::fflush(stdout);
  }
  std::printf("largest step: %.2f (best), %.2f (estimate's choice); least ratio to cuBLASLt bf16: %.2f\n", worst_step, worst_estimate_step,
              lt ? least_ratio : 0.0);
  for (void* w : w_bf16) cudaFree(w);
  cudaFree(x_bf16);
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
  if (options.sweep) run_sweep(options, caps, pool);
  if (options.compare) run_compare(options, caps, pool);
  if (options.json != nullptr) std::fclose(options.json);
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
    else if (arg == "--compare")
      options.compare = true;
    else if (arg == "--sweep")
      options.sweep = true;
    else if (arg == "--rounds" && i + 1 < argc)
      options.rounds = std::max(1, std::atoi(argv[++i]));
    else if (arg == "--json" && i + 1 < argc) {
      options.json = std::fopen(argv[++i], "w");
      if (options.json == nullptr) {
        std::printf("gemm_mma_probe: %s cannot be written\n", argv[i]);
        return 2;
      }
    } else if (arg == "--kernel" && i + 1 < argc)
      options.kernel = argv[++i];
    else {
      std::printf(
          "usage: gemm_mma_probe [--large] [--small] [--ceiling] [--budget-99k] [--raster] [--compare] [--sweep] [--rounds N] [--json FILE] [--kernel "
          "ID-PART]\n");
      return 2;
    }
  }
  if (!options.large && !options.small && !options.raster && !options.ceiling && !options.compare && !options.sweep)
    options.ceiling = options.large = options.small = true;
  try {
    return octavo::run(options);
  } catch (const std::exception& error) {
    std::printf("gemm_mma_probe: %s\n", error.what());
    return 1;
  }
}
