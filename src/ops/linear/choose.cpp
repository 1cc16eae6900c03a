#include "ops/linear/choose.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/checked_math.h"
#include "ops/linear/catalog.h"
#include "ops/linear/device/tile_order.h"

namespace octavo {
namespace {

// What one SM of a generation does per clock. kernels.md sections 1, 4a; Hopper's mma.sync rate is measured (bench/results), its wgmma rate is the data
// sheet's.
struct SmRates {
  double mma_macs;  // int8 multiply-adds through mma.sync
  double wgmma_macs;
  double dp4a_macs;
  double l2_bytes;  // from L2, all SMs busy
};

SmRates rates_of(int sm) {
  if (sm >= 90 && sm < 100) return {2460, 4096, 512, 42};
  if (sm == 80) return {2048, 0, 512, 42};
  if (sm < 80) return {1024, 0, 512, 20};
  return {1024, 0, 512, 22};
}

// Share of the wgmma rate that a tile reaches while it multiplies: a narrow tile waits for its operands, 192 columns leave the epilogue of one warpgroup
// beside the products of the other. Measured on the H200 (bench/results/2026-11-30-h200-run/bench_linear.json).
double wgmma_share(const GemmConfig& c) {
  if (c.tile_m < 128) return 0.58;
  return c.pingpong && c.tile_n == 192 ? 0.86 : 0.81;
}

constexpr double kSharedBytesPerClock = 128;
constexpr double kLaunchSeconds = 2.5e-6;
constexpr double kTileClocks = 900;         // first bytes to arrive, where nothing hides it
constexpr double kStoreBytesPerClock = 32;  // an epilogue, conversions included
constexpr double kSharedSlack = 1.1;        // shared memory is not used evenly over time
constexpr double kTwoStages = 1.12;         // a copy has one slice of time to arrive: measured on the H200
constexpr double kOverlapLoss = 0.25;       // of the shorter of work and memory traffic

// Units that work at once: the slowest decides, and one that is nearly as slow makes it stall now and then. With the exponent 4, two equal ones cost 19 %
// more than one. On an A6000 large tiles beat small ones by up to half although L2 just keeps up with both (kernels.md, source of section 0.6).
double together_clocks(std::initializer_list<double> units) {
  double sum = 0;
  for (const double clocks : units) sum += std::pow(clocks, 4);
  return std::pow(sum, 0.25);
}

// CTAs of a kernel that share an SM: as many as it was built for, where their shared memory fits.
int resident_ctas(const GemmKernel& kernel, const DeviceCaps& caps) {
  constexpr std::int64_t kReservedShared = 1024;  // per CTA, by the driver
  if (caps.shared_per_sm_bytes <= 0) return kernel.config.ctas_per_sm;
  const std::int64_t fitting = std::int64_t(caps.shared_per_sm_bytes) / (kernel.shared_bytes + kReservedShared);
  return int(std::clamp<std::int64_t>(fitting, 1, kernel.config.ctas_per_sm));
}

double memory_bytes_per_second(const DeviceCaps& caps) {
  const double sheet = 2.0 * double(caps.memory_clock_khz) * 1e3 * double(caps.memory_bus_bits) / 8;
  return (sheet > 0 ? sheet : 500e9) * 0.88;
}

}  // namespace

double estimate_gemm_seconds(const GemmKernel& kernel, const GemmProblem& problem, const DeviceCaps& caps) {
  const GemmConfig& c = kernel.config;
  const SmRates rates = rates_of(caps.sm);
  const double clock = caps.clock_khz > 0 ? double(caps.clock_khz) * 1e3 : 1.5e9;
  const double sms = std::max(1, caps.sm_count);
  const double k = double(problem.k) / c.split_k;
  double tiles = 0;
  double unique_bytes = 0;
  for (int i = 0; i < problem.groups; ++i) {
    const double m = double(problem.group[i].m);
    // Whole clusters: rows past the last are computed, too, or their SMs idle.
    tiles += std::ceil(m / (c.tile_m * c.cluster_m)) * c.cluster_m * std::ceil(double(problem.n) / (c.tile_n * c.cluster_n)) * c.cluster_n * c.split_k;
    unique_bytes += (m + double(problem.n)) * double(problem.k) + m * double(problem.n) * double(bytes_of(problem.out));
  }
  if (tiles == 0) return 0;

  const bool is_wgmma = kernel.family == "wgmma_sm90";
  const bool is_generic = kernel.family == "generic";
  double macs = is_generic ? rates.dp4a_macs * 0.2 : is_wgmma ? rates.wgmma_macs * wgmma_share(c) : rates.mma_macs * 0.88;
  if (kernel.family == "mma_sm75" && caps.sm >= 80) macs *= 0.4;  // small products are slow on later tensor cores
  // One CTA alone feeds the tensor cores only with enough warps; two per scheduler are enough (wgmma: its own asynchronous queue).
  const int warps = c.warps_m * c.warps_n * c.warps_k;
  const double alone = is_wgmma ? 1.0 : std::min(1.0, double(warps) / 8);

  const double steps = std::ceil(k / c.tile_k) * c.tile_k;
  const double tile_macs = double(c.tile_m) * c.tile_n * steps;
  const double slice_bytes = double(c.tile_m + c.tile_n) * steps;
  // Every warp reads its own fragments; a copied row of 64 bytes takes a write cycle of 128 (measured: 21 % excess wavefronts).
  const double fragment_bytes = is_wgmma ? 0 : steps * (double(c.tile_m) * c.warps_n + double(c.tile_n) * c.warps_m);
  const double written_bytes = slice_bytes * (!is_wgmma && c.tile_k == 64 ? 2 : 1);
  double per_tile = together_clocks({tile_macs / macs, kSharedSlack * (fragment_bytes + written_bytes) / kSharedBytesPerClock,
                                     slice_bytes / (rates.l2_bytes * std::max(1, c.cluster_m * c.cluster_n))});
  if (!is_wgmma && c.stages == 2 && caps.sm >= 80) per_tile *= kTwoStages;
  const double store = double(c.tile_m) * c.tile_n * double(bytes_of(problem.out)) / kStoreBytesPerClock;
  const int resident = resident_ctas(kernel, caps);
  const bool hidden = resident > 1 || c.pingpong;  // a neighbour multiplies meanwhile

  const double per_sm = std::ceil(tiles / sms);
  const double together = std::min<double>(per_sm, resident);
  const double busy = std::min(1.0, alone * together);
  const double at_work = (per_sm * per_tile / busy + kTileClocks + (hidden ? store : per_sm * store)) / clock;
  const double at_memory = unique_bytes / memory_bytes_per_second(caps) + kTileClocks / clock;
  double seconds = std::max(at_work, at_memory) + kOverlapLoss * std::min(at_work, at_memory);
  if (c.split_k > 1) seconds += kLaunchSeconds + 2.0 * double(problem.total_m()) * double(problem.n) * 4 * c.split_k / memory_bytes_per_second(caps);
  return seconds + kLaunchSeconds;
}

GemmLaunch default_launch(const GemmKernel& kernel, const GemmProblem& problem, const DeviceCaps& caps) {
  const int ctas = std::max(1, caps.sm_count) * kernel.config.ctas_per_sm;
  const std::int64_t tiles_m = ceil_div(std::max(problem.group[0].m, problem.group[1].m), std::int64_t(kernel.config.tile_m));
  return {.raster_group = device::best_raster_group(ctas, kernel.config.tile_m, kernel.config.tile_n, int(std::max<std::int64_t>(tiles_m, 1)))};
}

std::vector<const GemmKernel*> ranked_candidates(const GemmProblem& problem, const DeviceCaps& caps) {
  std::vector<std::pair<double, const GemmKernel*>> ranked;
  for (const GemmKernel* kernel : gemm_candidates(problem, caps)) ranked.emplace_back(estimate_gemm_seconds(*kernel, problem, caps), kernel);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const GemmKernel*> kernels;
  for (const auto& entry : ranked) kernels.push_back(entry.second);
  return kernels;
}

const GemmKernel* chosen(const GemmProblem& problem, const DeviceCaps& caps) {
  const std::vector<const GemmKernel*> ranked = ranked_candidates(problem, caps);
  return ranked.empty() ? nullptr : ranked.front();
}

}  // namespace octavo
