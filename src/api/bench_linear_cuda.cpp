#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/bench_peers.h"
#include "api/bench_table.h"
#include "api/gpu_bench.h"
#include "api/gpu_state.h"
#include "api/linear_shapes.h"
#include "io/json.h"
#include "octavo/error.h"
#include "ops/linear/catalog.h"
#include "ops/linear/choose.h"

namespace octavo {
namespace {

constexpr double kSliceSeconds = 3e-3;
constexpr double kWorthTiming = 2.5;  // candidates estimated slower than this many times the best are named, not timed

// Mean of ratios, as ratios want it.
class GeometricMean {
 public:
  void add(double ratio) {
    log_sum_ += std::log(ratio);
    least_ = count_ == 0 ? ratio : std::min(least_, ratio);
    ++count_;
  }
  double value() const { return count_ == 0 ? 0 : std::exp(log_sum_ / count_); }
  double least() const { return least_; }

 private:
  double log_sum_ = 0;
  double least_ = 0;
  int count_ = 0;
};

struct Totals {
  double tops_sum = 0;
  double tops_least = 0;
  int shapes = 0;
  std::map<std::string, GeometricMean> ratios{};
};

Json row_of(const Entrant& entrant, double operations, double limit_seconds) {
  const Spread spread = entrant.spread();
  Json row;
  row["name"] = entrant.name;
  row["us"] = spread.median * 1e6;
  row["us_p10"] = spread.p10 * 1e6;
  row["us_p90"] = spread.p90 * 1e6;
  row["tops"] = operations * 1e-12 / spread.median;
  row["percent_of_limit"] = 100 * limit_seconds / spread.median;
  return row;
}

std::string text_of(const Json& row, const std::string& mark, const std::string& tail) {
  return fmt::format("  {:1} {:<34} {:9.1f} us [{:.1f}-{:.1f}] {:7.0f} TOPS {:5.1f} %{}\n", mark, row["name"].get<std::string>(), row["us"].get<double>(),
                     row["us_p10"].get<double>(), row["us_p90"].get<double>(), row["tops"].get<double>(), row["percent_of_limit"].get<double>(), tail);
}

struct Bench {
  const BenchOptions& options;
  LinearTimer& timer;
  CublasLt* peers = nullptr;
  Totals totals{};
  std::string text{};
  Json rows = Json::array();

  Bench(const BenchOptions& bench_options, LinearTimer& linear_timer, CublasLt* cublas) : options(bench_options), timer(linear_timer), peers(cublas) {}

  void run(const LinearShape& shape) {
    timer.prepare(shape);
    const GemmProblem& problem = timer.problem(0);
    const DeviceCaps& caps = timer.caps();
    const LinearChoice choice = choose_linear(problem, caps);
    if (choice.kernel == nullptr) throw Unsupported(fmt::format("bench linear: no kernel takes {} on {} (sm_{})", shape_text(shape), caps.name, caps.sm));
    const LinearLimit limit = limit_of(problem, caps);

    std::vector<Entrant> entrants;
    std::vector<std::string> skipped;
    // With its raster group the chosen one stands for itself; every other candidate runs in the order of its estimate.
    const auto add = [&](const GemmKernel& kernel, const GemmLaunch& launch) {
      entrants.push_back({.name = std::string(kernel.id), .time = [this, &kernel, launch](int repeats) { return timer.time(kernel, launch, repeats, false); }});
    };
    add(*choice.kernel, choice.launch);
    const std::vector<const GemmKernel*> ranked = ranked_candidates(problem, caps);
    const double best_estimate = estimate_gemm_seconds(*ranked.front(), problem, caps);
    for (const GemmKernel* kernel : ranked) {
      if (kernel == choice.kernel) continue;
      if (estimate_gemm_seconds(*kernel, problem, caps) > kWorthTiming * best_estimate) {
        skipped.emplace_back(kernel->id);
      } else {
        add(*kernel, default_launch(*kernel, problem, caps));
      }
    }
    const std::size_t ours = entrants.size();

    std::vector<std::string> absent;
    std::optional<bool> equal_bits;
    if (peers != nullptr && shape.m2 == 0 && shape.epilogue == GemmEpilogue::plain && shape.out == DType::bf16) {
      try {
        for (Peer& peer : peers->prepare(shape)) {
          if (!peer.enqueue) {
            absent.push_back(fmt::format("{}: {}", peer.name, peer.note));
            continue;
          }
          if (peer.name.find("int8") != std::string::npos) {
            peer.enqueue(0);
            const std::int64_t bytes = choice.kernel->workspace_bytes + (choice.kernel->workspace_for != nullptr ? choice.kernel->workspace_for(problem) : 0);
            choice.kernel->launch(problem, choice.launch, timer.workspace(bytes), timer.stream().handle());
            equal_bits = peers->int8_equals(problem.group[0].y, shape);
          }
          entrants.push_back({.name = fmt::format("{} ({})", peer.name, peer.note),
                              .time = [this, enqueue = peer.enqueue](int repeats) { return timer.time(repeats, enqueue); }});
        }
      } catch (const OutOfMemory& error) {
        absent.emplace_back(error.what());
      }
    }

    time_in_turns(entrants, options.quick ? 5 : 13, kSliceSeconds);

    Json row;
    row["shape"] = shape_text(shape);
    row["m"] = shape.m;
    row["m2"] = shape.m2;
    row["n"] = shape.n;
    row["k"] = shape.k;
    row["limit"] = limit.what;
    row["limit_us"] = limit.seconds * 1e6;
    row["is_tuned"] = choice.is_tuned;
    row["raster_group"] = choice.launch.raster_group;
    row["chosen"] = row_of(entrants[0], shape.operations(), limit.seconds);
    row["candidates"] = Json::array();
    row["peers"] = Json::array();
    const double chosen = entrants[0].spread().median;
    std::string lines = fmt::format("{}  limit {:.1f} us ({}), {}\n", shape_text(shape), limit.seconds * 1e6, limit.what,
                                    choice.is_tuned ? "tuned" : "estimated: run 'octavo tune'");
    if (options.explain_dispatch) lines += fmt::format("    {}\n", explain(choice, problem, caps));
    for (std::size_t i = 0; i < entrants.size(); ++i) {
      Json entry = row_of(entrants[i], shape.operations(), limit.seconds);
      const double ratio = entrants[i].spread().median / chosen;
      entry["times_chosen"] = ratio;
      lines += text_of(entry,
                       i == 0     ? ">"
                       : i < ours ? " "
                                  : "=",
                       i == 0     ? ""
                       : i < ours ? fmt::format("  {:+.1f} %", 100 * (ratio - 1))
                                  : fmt::format("  ours {:.2f} x", ratio));
      if (i >= ours) {
        const std::string& name = entrants[i].name;
        totals.ratios[name.substr(0, name.find(" ("))].add(ratio);
      }
      if (i > 0) row[i < ours ? "candidates" : "peers"].push_back(std::move(entry));
    }
    if (equal_bits) {
      row["int8_peer_has_equal_bits"] = *equal_bits;
      if (!*equal_bits) lines += "    the INT8 peer's output DIFFERS from ours\n";
    }
    for (const std::string& line : absent) lines += fmt::format("  - {}\n", line);
    if (options.explain_dispatch && !skipped.empty())
      lines += fmt::format("    not timed (estimated over {} x the best): {} candidates\n", kWorthTiming, skipped.size());
    row["not_timed"] = skipped;
    row["absent_peers"] = absent;
    const GpuState state = gpu_state(timer.device().index);
    row["state"] = state.text();
    if (state.is_throttled()) lines += fmt::format("    GPU: {}\n", state.text());

    const double tops = shape.operations() * 1e-12 / chosen;
    totals.tops_sum += tops;
    totals.tops_least = totals.shapes == 0 ? tops : std::min(totals.tops_least, tops);
    ++totals.shapes;
    text += lines;
    rows.push_back(std::move(row));
    if (options.progress) options.progress(fmt::format("{}: {:.1f} us, {:.0f} TOPS, {}", shape_text(shape), chosen * 1e6, tops, entrants[0].name));
  }
};

}  // namespace

std::string bench_linear_on_gpu(const BenchOptions& options) {
  const BenchGpu gpu = bench_gpu("bench linear", options.device);
  const std::vector<LinearShape> shapes = parse_linear_shapes("bench linear", options.shapes);
  LinearTimer timer(gpu.device, gpu.caps);
  std::unique_ptr<CublasLt> peers;
  std::string missing;
  if (options.peers) {
    peers = std::make_unique<CublasLt>(timer);
    missing = peers->missing();
    if (!missing.empty()) peers.reset();
  }
  const GpuState before = gpu_state(gpu.device.index);
  timer.prepare(shapes.front());
  timer.warm_up(1.0);
  Bench bench(options, timer, peers.get());
  for (const LinearShape& shape : shapes) bench.run(shape);
  const GpuState after = gpu_state(gpu.device.index);

  const Totals& totals = bench.totals;
  Json report;
  report["what"] = "w8a8 linear, bf16 out, Gaussian codes, operands rotated through 2.5 x the L2, median of interleaved timings";
  report["version"] = describe_version(Format::text);
  report["gpu"] = linear_store(gpu.caps).gpu().text();
  report["boost_mhz"] = gpu.caps.clock_khz / 1000;
  report["state_before"] = before.text();
  report["state_after"] = after.text();
  report["mean_tops"] = totals.tops_sum / std::max(totals.shapes, 1);
  report["least_tops"] = totals.tops_least;
  report["ratios"] = Json::object();
  for (const auto& [name, ratio] : totals.ratios) report["ratios"][name] = {{"geometric_mean", ratio.value()}, {"least", ratio.least()}};
  if (!missing.empty()) report["peers_missing"] = missing;
  report["rows"] = std::move(bench.rows);
  if (options.format == Format::json) return report.dump(2) + "\n";

  std::string text = fmt::format("{}, boost {} MHz; before: {}\n> chosen, = peer; percent is of the limit; median [p10-p90] of interleaved timings\n\n",
                                 report["gpu"].get<std::string>(), gpu.caps.clock_khz / 1000, before.text());
  text += bench.text;
  text += fmt::format("\nmean {:.0f} TOPS, least {:.0f} over {} shapes; after: {}\n", report["mean_tops"].get<double>(), totals.tops_least, totals.shapes,
                      after.text());
  for (const auto& [name, ratio] : totals.ratios)
    text += fmt::format("ours is {:.3f} x {} (geometric mean), least {:.3f} x\n", ratio.value(), name, ratio.least());
  if (!missing.empty()) text += fmt::format("no peers: {}\n", missing);
  return text;
}

}  // namespace octavo
