// Prints the predicted rows of docs/gpus.md: what the analytic model expects of GPUs that nobody here has. Runs without a GPU.
// With --kernels, for tools/check_sass.py, what it expects of every mma and wgmma kernel, whether or not the kernel would be chosen:
//   family sm tile_m tile_n tile_k warps_m warps_n warps_k stages percent rows
// With --model FILE[,FILE ...], what 'octavo bench model --json' wrote on some GPU: the step and the image on each of the others (api/model_predict.h). With
// --into PAGE it replaces what stands in PAGE between the lines "<!-- predicted model -->" and "<!-- end of prediction -->".
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "api/model_predict.h"
#include "api/model_report.h"
#include "base/files.h"
#include "io/json.h"
#include "models/linear_shapes.h"
#include "octavo/error.h"
#include "ops/linear/catalog.h"
#include "ops/linear/choose.h"
#include "ops/linear/tuned.h"

namespace octavo {
namespace {

DeviceCaps caps_of(const char* name, int sm, int sms, int boost_mhz, int memory_gb_per_s, int l2_mb, int shared_kb, int memory_gb) {
  DeviceCaps caps{.name = name, .sm = sm, .sm_count = sms};
  caps.shared_per_sm_bytes = (shared_kb + 1) * 1024;
  caps.shared_per_block_bytes = shared_kb * 1024;
  caps.l2_bytes = l2_mb << 20;
  caps.clock_khz = boost_mhz * 1000;
  caps.memory_bus_bits = 8000;  // so that 2 · clock · bits / 8 is the data sheet's bandwidth
  caps.memory_clock_khz = memory_gb_per_s * 500;
  caps.memory_bytes = std::int64_t(memory_gb) << 30;
  return caps;
}

GemmProblem problem_of(const models::LinearShapeRow& row) {
  // Aligned addresses that nobody reads: candidates look at alignment.
  static std::int8_t* const somewhere = reinterpret_cast<std::int8_t*>(std::uintptr_t(1) << 20);
  GemmProblem problem{.n = row.n, .k = row.k};
  problem.group[0] = {.x = somewhere,
                      .x_stride = row.k,
                      .x_scale = reinterpret_cast<const float*>(somewhere),
                      .w = somewhere,
                      .w_stride = row.k,
                      .w_scale = reinterpret_cast<const float*>(somewhere),
                      .y = somewhere,
                      .y_stride = row.n,
                      .m = row.m};
  return problem;
}

// One line per kernel and GPU: the share of the limit at M = 4096, or at the most rows that the kernel takes.
void print_kernels(const std::vector<DeviceCaps>& gpus) {
  for (const DeviceCaps& gpu : gpus) {
    for (const GemmKernel& kernel : gemm_catalog()) {
      if (kernel.family == "generic" || kernel.config.split_k > 1 || gpu.sm < kernel.arch.min_sm || gpu.sm > kernel.arch.max_sm ||
          kernel.shared_bytes > gpu.shared_per_block_bytes) {
        continue;
      }
      GemmProblem problem = problem_of({.layer = "qkv", .m = 4096, .n = 13824, .k = 4608});
      while (problem.group[0].m > 1 && !kernel.accepts(problem)) problem.group[0].m /= 2;
      if (!kernel.accepts(problem)) continue;
      const GemmConfig& c = kernel.config;
      fmt::print("{} {} {} {} {} {} {} {} {} {:.0f} {}\n", kernel.family, gpu.sm, c.tile_m, c.tile_n, c.tile_k, c.warps_m, c.warps_n, c.warps_k, c.stages,
                 100 * limit_of(problem, gpu).seconds / estimate_gemm_seconds(kernel, problem, gpu), problem.group[0].m);
    }
  }
}

// What the best kernel of a product as the model runs it should take.
double int8_seconds(const OpRow& row, const DeviceCaps& gpu) {
  const std::string layer = row.name;
  GemmProblem problem = problem_of({.layer = layer, .m = row.m, .n = row.n, .k = row.k});
  if (row.out == "f32") problem.out = DType::f32;
  const auto ranked = ranked_candidates(problem, gpu);
  return ranked.empty() ? 0 : estimate_gemm_seconds(*ranked.front(), problem, gpu);
}

// `files`: one or several, with commas between them.
void print_model(const std::string& files, const std::optional<std::string>& page, const std::vector<DeviceCaps>& gpus) {
  std::vector<ModelRun> runs;
  std::istringstream names(files);
  for (std::string path; std::getline(names, path, ',');) {
    const Json report = read_json(path);
    if (!report.is_object() || !report.contains("runs"))
      throw DataError(fmt::format("file '{}': has no 'runs'; 'octavo bench model --json' writes them", path));
    for (const Json& run : report["runs"]) runs.push_back(run_from_json(run, fmt::format("file '{}'", path)));
  }
  std::stable_sort(runs.begin(), runs.end(), [](const ModelRun& a, const ModelRun& b) { return a.size < b.size; });
  const std::string text = prediction_page(runs, gpus, int8_seconds);
  if (!page) return fmt::print("{}", text);
  constexpr std::string_view kBegin = "<!-- predicted model -->\n", kEnd = "<!-- end of prediction -->\n";
  std::string whole = read_text(*page, std::size_t(1) << 24);
  const std::size_t begin = whole.find(kBegin), end = whole.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw InvalidArgument(
        fmt::format("--into '{}': the lines '{}' and '{}' are not in it", *page, kBegin.substr(0, kBegin.size() - 1), kEnd.substr(0, kEnd.size() - 1)));
  whole.replace(begin + kBegin.size(), end - begin - kBegin.size(), text);
  AtomicFile file(*page);
  file.write(std::as_bytes(std::span(whole)));
  file.commit();
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  using namespace octavo;
  const std::vector<DeviceCaps> gpus{caps_of("RTX 2080 Ti", 75, 68, 1545, 616, 5, 64, 11), caps_of("RTX 3060", 86, 28, 1777, 360, 3, 99, 12),
                                     caps_of("RTX 3090", 86, 82, 1695, 936, 6, 99, 24),    caps_of("A100 80 GB", 80, 108, 1410, 2039, 40, 163, 80),
                                     caps_of("RTX 4090", 89, 128, 2520, 1008, 72, 99, 24), caps_of("RTX 5090", 120, 170, 2407, 1792, 96, 99, 32)};
  if (argc == 2 && std::string_view(argv[1]) == "--kernels") {
    std::vector<DeviceCaps> with_hopper = gpus;
    with_hopper.erase(with_hopper.begin() + 1);  // the smaller of two GPUs of sm_86
    with_hopper.push_back(caps_of("H200", 90, 132, 1980, 4800, 60, 227, 141));
    print_kernels(with_hopper);
    return 0;
  }
  if ((argc == 3 || (argc == 5 && std::string_view(argv[3]) == "--into")) && std::string_view(argv[1]) == "--model") {
    try {
      print_model(argv[2], argc == 5 ? std::optional<std::string>(argv[4]) : std::nullopt, gpus);
      return 0;
    } catch (const Error& failure) {
      fmt::print(stderr, "predict_gpus: {}\n", failure.what());
      return failure.exit_code();
    }
  }
  if (argc > 1) {
    fmt::print(stderr, "predict_gpus: unknown argument \"{}\"; there are --kernels and --model FILE[,FILE ...] [--into PAGE]\n", argv[1]);
    return 2;
  }
  fmt::print("| layer, M×N×K |");
  for (const DeviceCaps& gpu : gpus) fmt::print(" {} |", gpu.name);
  fmt::print("\n|---|");
  for (std::size_t i = 0; i < gpus.size(); ++i) fmt::print("---|");
  fmt::print("\n");
  std::vector<double> share(gpus.size(), 0);
  int shapes = 0;
  for (const models::LinearShapeRow& row : models::linear_shapes(models::kDefaultLinearShapeSet)) {
    fmt::print("| {} {}×{}×{} |", row.layer, row.m, row.n, row.k);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const GemmProblem problem = problem_of(row);
      const auto ranked = ranked_candidates(problem, gpus[i]);
      if (ranked.empty()) {
        fmt::print(" none |");
        continue;
      }
      const double seconds = estimate_gemm_seconds(*ranked.front(), problem, gpus[i]);
      const double limit = limit_of(problem, gpus[i]).seconds;
      share[i] += limit / seconds;
      fmt::print(" {:.2f} ms, {:.0f} %, {} |", seconds * 1e3, 100 * limit / seconds, ranked.front()->id);
    }
    fmt::print("\n");
    ++shapes;
  }
  fmt::print("| mean share of the limit |");
  for (const double sum : share) fmt::print(" {:.0f} % |", 100 * sum / shapes);
  fmt::print("\n");
  return 0;
}
