#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "api/gpu_bench.h"
#include "api/gpu_state.h"
#include "api/linear_shapes.h"
#include "base/clock.h"
#include "io/json.h"

namespace octavo {
namespace {

GemmProblem problem_of(const LinearShape& shape) {
  GemmProblem problem{.n = shape.n, .k = shape.k, .out = shape.out, .epilogue = shape.epilogue, .groups = shape.m2 > 0 ? 2 : 1};
  problem.group[0].m = shape.m;
  problem.group[1].m = shape.m2;
  return problem;
}

}  // namespace

std::string tune_on_gpu(const TuneOptions& options) {
  const BenchGpu gpu = bench_gpu("tune", options.device);
  const std::vector<LinearShape> shapes = parse_linear_shapes("tune", options.shapes);
  const bool only_files = options.shapes.empty() && (options.import_path || options.export_path);
  const auto say = [&](const std::string& line) {
    if (options.progress) options.progress(line);
  };
  Json report;
  report["gpu"] = linear_store(gpu.caps).gpu().text();
  report["file"] = linear_store(gpu.caps).own_path().string();
  if (options.import_path) {
    const std::size_t count = import_linear(gpu.caps, *options.import_path);
    report["imported"] = count;
    say(fmt::format("imported {} choices from {}", count, *options.import_path));
  }
  if (!only_files) {
    const Stopwatch watch;
    LinearTimer timer(gpu.device, gpu.caps);
    bool is_warm = false;
    Json rows = Json::array();
    double regret_sum = 0;
    double regret_worst = 0;
    double regret_seconds = 0;
    int measured = 0;
    for (const LinearShape& shape : shapes) {
      const tune::ShapeKey key = shape_key(problem_of(shape));
      const bool is_known = linear_store(gpu.caps).has_own(key);
      Json row;
      row["shape"] = shape_text(shape);
      row["key"] = key.text();
      if (is_known && !options.force) {
        row["known"] = true;
      } else {
        if (!is_warm) {
          timer.prepare(shape);
          timer.warm_up(1.0);  // clocks settle; on a cold card the first candidates would look fast
          is_warm = true;
        }
        TunedShape tuned = tune_linear(timer, shape);
        row["seconds_spent"] = tuned.spent;
        record_linear(gpu.caps, tuned.key, std::move(tuned.entry));
        ++measured;
      }
      const tune::Entry& entry = *linear_store(gpu.caps).find(key);
      row["winner"] = entry.winner;
      row["raster_group"] = entry.raster_group;
      row["us"] = entry.seconds * 1e6;
      std::string line = fmt::format("{:<24} {:<32} raster {:<3} {:9.1f} us {:6.0f} TOPS", shape_text(shape), entry.winner, entry.raster_group,
                                     entry.seconds * 1e6, shape.operations() * 1e-12 / entry.seconds);
      if (!entry.lost.empty()) line += fmt::format("  next {} {:+.1f} %", entry.lost[0].id, 100 * (entry.lost[0].seconds / entry.seconds - 1));
      if (options.regret) {
        const Stopwatch regret_watch;
        const Regret regret = regret_of(timer, shape, entry);
        row["regret"] = regret.value();
        row["best"] = regret.best_id;
        regret_sum += regret.value();
        regret_worst = std::max(regret_worst, regret.value());
        regret_seconds += regret_watch.seconds();
        line += fmt::format("  regret {:.2f} % against {}", 100 * regret.value(), regret.best_id);
      }
      say(line + (is_known && !options.force ? "  (known)" : ""));
      rows.push_back(std::move(row));
    }
    report["shapes"] = std::move(rows);
    report["measured"] = measured;
    report["seconds"] = watch.seconds() - regret_seconds;
    report["state"] = gpu_state(gpu.device.index).text();
    if (options.regret) {
      report["regret_mean"] = regret_sum / double(std::max<std::size_t>(shapes.size(), 1));
      report["regret_worst"] = regret_worst;
    }
  }
  if (options.export_path) {
    linear_store(gpu.caps).export_to(*options.export_path);
    report["exported"] = *options.export_path;
  }
  if (options.format == Format::json) return report.dump(2) + "\n";
  std::string text;
  if (!only_files) {
    text += fmt::format("tuned {} of {} shapes in {:.1f} s for {}\n", report["measured"].get<int>(), shapes.size(), report["seconds"].get<double>(),
                        report["gpu"].get<std::string>());
    if (options.regret)
      text += fmt::format("regret: mean {:.2f} %, worst {:.2f} %\n", 100 * report["regret_mean"].get<double>(), 100 * report["regret_worst"].get<double>());
    const std::string file = report["file"];
    text += file.empty() ? "not saved: there is no home folder; set XDG_CACHE_HOME\n" : fmt::format("saved in {}\n", file);
  }
  if (options.import_path) text += fmt::format("imported {} choices from {}\n", report["imported"].get<std::size_t>(), *options.import_path);
  if (options.export_path) text += fmt::format("exported to {}\n", *options.export_path);
  return text;
}

}  // namespace octavo
