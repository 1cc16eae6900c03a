#include "ops/linear/tuned.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "ops/linear/catalog.h"
#include "ops/linear/choose.h"

namespace octavo {
namespace {

std::string_view name_of(GemmEpilogue epilogue) {
  switch (epilogue) {
    case GemmEpilogue::plain:
      return "plain";
    case GemmEpilogue::gated_residual:
      return "gated_residual";
    case GemmEpilogue::silu_mul:
      return "silu_mul";
    case GemmEpilogue::silu:
      return "silu";
  }
  return "plain";
}

// Read once per model of GPU and kept: looking a choice up must not touch the disk.
struct Stores {
  std::mutex mutex{};
  std::map<std::string, std::unique_ptr<tune::Store>> by_gpu{};

  tune::Store& of(const DeviceCaps& caps) {
    std::unique_ptr<tune::Store>& store = by_gpu[fmt::format("{}/{}/{}", caps.name, caps.sm, caps.sm_count)];
    if (!store) store = std::make_unique<tune::Store>(tune::gpu_key(caps, gemm_kernel_set()), tune::default_places());
    return *store;
  }
};

Stores& stores() {
  static Stores all;
  return all;
}

}  // namespace

std::string gemm_kernel_set() {
  // FNV-1a over text, in catalogue order.
  std::uint64_t hash = 14695981039346656037ull;
  for (const GemmKernel& kernel : gemm_catalog()) {
    const GemmConfig& c = kernel.config;
    const std::string text = fmt::format("{} {} {}x{}x{} {}x{}x{} {} {} {} {}x{} {} {};", kernel.id, kernel.family, c.tile_m, c.tile_n, c.tile_k, c.warps_m,
                                         c.warps_n, c.warps_k, c.stages, c.split_k, c.ctas_per_sm, c.cluster_m, c.cluster_n, c.pingpong, kernel.shared_bytes);
    for (const char byte : text) hash = (hash ^ std::uint8_t(byte)) * 1099511628211ull;
  }
  return fmt::format("{:016x}", hash);
}

tune::ShapeKey shape_key(const GemmProblem& problem) {
  tune::ShapeKey key{.n = problem.n, .k = problem.k, .epilogue = std::string(name_of(problem.epilogue)), .out = std::string(octavo::name_of(problem.out))};
  const bool is_pair = problem.groups > 1 && problem.group[1].m > 0;
  key.m = is_pair ? problem.group[0].m : tune::m_bucket(problem.total_m());
  key.m2 = is_pair ? problem.group[1].m : 0;
  return key;
}

LinearChoice choose_linear(const GemmProblem& problem, const DeviceCaps& caps) {
  LinearChoice choice;
  {
    const std::lock_guard lock(stores().mutex);
    if (const tune::Entry* entry = stores().of(caps).find(shape_key(problem))) {
      const GemmKernel* kernel = find_gemm_kernel(entry->winner);
      const bool runs_here =
          kernel != nullptr && caps.sm >= kernel->arch.min_sm && caps.sm <= kernel->arch.max_sm && kernel->shared_bytes <= caps.shared_per_block_bytes;
      if (runs_here && kernel->accepts(problem)) {  // a misaligned view of a tuned shape takes another way
        choice.kernel = kernel;
        choice.launch = entry->raster_group > 0 ? GemmLaunch{.raster_group = entry->raster_group} : default_launch(*kernel, problem, caps);
        choice.is_tuned = true;
        choice.seconds = entry->seconds;
        choice.lost = entry->lost;
        return choice;
      }
    }
  }
  const std::vector<const GemmKernel*> ranked = ranked_candidates(problem, caps);
  if (ranked.empty()) return choice;
  choice.kernel = ranked.front();
  choice.launch = default_launch(*choice.kernel, problem, caps);
  choice.seconds = estimate_gemm_seconds(*choice.kernel, problem, caps);
  for (std::size_t i = 1; i < ranked.size(); ++i) choice.lost.push_back({std::string(ranked[i]->id), estimate_gemm_seconds(*ranked[i], problem, caps)});
  return choice;
}

const tune::Store& linear_store(const DeviceCaps& caps) {
  const std::lock_guard lock(stores().mutex);
  return stores().of(caps);
}

void record_linear(const DeviceCaps& caps, const tune::ShapeKey& shape, tune::Entry entry) {
  const std::lock_guard lock(stores().mutex);
  stores().of(caps).record(shape, std::move(entry));
}

std::size_t import_linear(const DeviceCaps& caps, const std::filesystem::path& path) {
  const std::lock_guard lock(stores().mutex);
  return stores().of(caps).import_from(path);
}

LinearLimit limit_of(const GemmProblem& problem, const DeviceCaps& caps) {
  // Dense int8 multiply-adds per clock and SM (kernels on mma.sync reach about 60 % of sm_90's, which wgmma has).
  const double macs = caps.sm >= 100 && caps.sm < 120 ? 8192 : caps.sm >= 90 && caps.sm < 100 ? 4096 : caps.sm == 80 ? 2048 : 1024;
  const double clock = double(caps.clock_khz) * 1e3;
  const double bandwidth = 2.0 * double(caps.memory_clock_khz) * 1e3 * double(caps.memory_bus_bits) / 8;
  double bytes = 0;
  for (int i = 0; i < problem.groups; ++i) {
    const double m = double(problem.group[i].m);
    bytes += (m + double(problem.n)) * double(problem.k) +
             m * double(problem.n) * double(bytes_of(problem.out)) / (problem.epilogue == GemmEpilogue::silu_mul ? 2 : 1);
  }
  const double compute_seconds = double(problem.total_m()) * double(problem.n) * double(problem.k) / std::max(macs * clock * caps.sm_count, 1.0);
  const double memory_seconds = bytes / std::max(bandwidth, 1.0);
  return compute_seconds >= memory_seconds ? LinearLimit{compute_seconds, "tensor cores"} : LinearLimit{memory_seconds, "memory"};
}

std::string explain(const LinearChoice& choice, const GemmProblem& problem, const DeviceCaps& caps) {
  if (choice.kernel == nullptr) return "no kernel takes this problem on this GPU";
  std::string line = fmt::format("{} ({}, {:.1f} us, raster {})", choice.kernel->id, choice.is_tuned ? "tuned" : "estimated", choice.seconds * 1e6,
                                 choice.launch.raster_group);
  const std::size_t shown = std::min<std::size_t>(choice.lost.size(), 3);
  for (std::size_t i = 0; i < shown; ++i)
    line += fmt::format("{} {} {:+.1f} %", i == 0 ? " · lost:" : ",", choice.lost[i].id, 100 * (choice.lost[i].seconds / choice.seconds - 1));
  if (choice.lost.size() > shown) line += fmt::format(" and {} more", choice.lost.size() - shown);
  return line + fmt::format(" · limit: {}", limit_of(problem, caps).what);
}

}  // namespace octavo
