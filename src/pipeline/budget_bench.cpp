#include "pipeline/budget_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/content_hash.h"
#include "device/counters.h"
#include "models/random_model.h"
#include "pipeline/model_memory.h"
#include "pipeline/pipeline.h"

namespace octavo {
namespace {

// Not 1, so that both branches run; little, so that random weights do not drive the latents far.
constexpr float kGuidance = 2;

// Cuts a run of the pipeline into phases where it reports, and reads memory and clocks there.
class RunWatch final : public Observer {
 public:
  RunWatch(MemoryWatch& memory, const Pipeline& pipeline) : memory_(memory), pipeline_(pipeline) { memory_.forget(); }

  void on_progress(std::string_view part, int, int step, int steps) override {
    end_stretch(phase_of(part, step), part == "denoise" && step > 0);
    if (part == "denoise" && step == 1) copied_in_first_ = pipeline_.streamed_bytes();
    if (part == "denoise" && step == steps && steps > 1) run_.copied_bytes_of_step = (pipeline_.streamed_bytes() - copied_in_first_) / (steps - 1);
    stretch_ = {};
  }

  BudgetRun finished() {
    end_stretch("decode", false);
    if (step_seconds_.size() > 1) step_seconds_.erase(step_seconds_.begin());  // loads kernels, records graphs
    if (!step_seconds_.empty()) run_.step = spread_of(step_seconds_);
    return std::move(run_);
  }

 private:
  // What the pipeline did before it reported that `part` has reached `step`: a part begins with what prepares it.
  static std::string_view phase_of(std::string_view part, int step) { return part == "denoise" && step == 0 ? "prepare" : part; }

  void end_stretch(std::string_view phase, bool is_step) {
    const double seconds = stretch_.seconds();
    auto found = std::find_if(run_.phases.begin(), run_.phases.end(), [&](const PhaseRun& each) { return each.name == phase; });
    if (found == run_.phases.end()) found = run_.phases.insert(run_.phases.end(), PhaseRun{.name = std::string(phase)});
    found->seconds += seconds;
    found->peak_bytes = std::max(found->peak_bytes, memory_.look());
    memory_.forget();
    if (is_step) step_seconds_.push_back(seconds);
  }

  MemoryWatch& memory_;
  const Pipeline& pipeline_;
  BudgetRun run_{};
  Stopwatch stretch_{};
  std::vector<double> step_seconds_{};
  std::int64_t copied_in_first_ = 0;
};

std::string name_of(const BudgetRun& run) { return run.budget_bytes ? fmt::format("--vram {}", memory_size_word(*run.budget_bytes)) : "no budget"; }

}  // namespace

std::int64_t BudgetRun::peak_bytes() const {
  std::int64_t peak = 0;
  for (const PhaseRun& phase : phases) peak = std::max(peak, phase.peak_bytes);
  return peak;
}

double BudgetRun::phase_seconds(std::string_view name) const {
  const auto found = std::find_if(phases.begin(), phases.end(), [&](const PhaseRun& phase) { return phase.name == name; });
  return found == phases.end() ? 0 : found->seconds;
}

std::int64_t count_colors(const std::vector<std::uint8_t>& rgb) {
  std::vector<std::uint32_t> colors;
  for (std::size_t i = 0; i + 2 < rgb.size(); i += 3) colors.push_back(std::uint32_t(rgb[i]) << 16 | std::uint32_t(rgb[i + 1]) << 8 | rgb[i + 2]);
  std::sort(colors.begin(), colors.end());
  return std::unique(colors.begin(), colors.end()) - colors.begin();
}

BudgetReport bench_budgets(const BudgetQuestion& question) {
  const Request request{.prompt = models::random_model_prompt(question.text),
                        .width = question.size,
                        .height = question.size,
                        .steps = question.steps,
                        .guidance = {kGuidance},
                        .seed = 1,
                        .force = true};
  const models::TemporaryRandomModel model(question.model);
  MemoryWatch memory(question.device);
  BudgetReport report{.model = question.model,
                      .precision = std::string(question.precision.name),
                      .gpu = question.device.is_cpu() ? "cpu" : caps_of(question.device).name,
                      .size = question.size,
                      .text = question.text,
                      .steps = question.steps,
                      .used_before_bytes = memory.now()};
  std::vector<std::optional<std::int64_t>> budgets{std::nullopt};
  budgets.insert(budgets.end(), question.budgets.begin(), question.budgets.end());
  std::vector<std::uint8_t> first;
  for (const std::optional<std::int64_t>& budget : budgets) {
    Pipeline pipeline({.model = model.path(),
                       .model_name = question.model,
                       .precision = question.precision,
                       .device = question.device,
                       .vram_bytes = budget,
                       .draws_weights = true});
    const RequestPlan plan = pipeline.plan(request);
    const std::optional<ResidencyPlan> residency = pipeline.residency(plan, question.text);
    RunWatch watch(memory, pipeline);
    const Image image = pipeline.run(plan, watch, {}).at(0);
    BudgetRun run = watch.finished();
    run.budget_bytes = budget;
    run.plan = residency;
    for (PhaseRun& phase : run.phases) {
      if (!residency) break;
      for (const ResidencyPlan::Phase& planned : residency->phases) {
        if (planned.name == phase.name) phase.planned_bytes = planned.bytes();
      }
    }
    if (report.runs.empty()) first = image.rgb;
    run.equals_first = image.rgb == first;
    run.colors = count_colors(image.rgb);
    ContentHash hash;
    hash.add(reinterpret_cast<const std::byte*>(image.rgb.data()), image.rgb.size());
    run.picture = hash.text();
    if (question.progress) {
      question.progress(fmt::format("{} {}x{}, {}: loaded in {:.1f} s, step {:.1f} ms, peak {:.2f} GB", question.precision.name, question.size, question.size,
                                    name_of(run), run.phase_seconds("load"), run.step.median * 1e3, double(run.peak_bytes()) * 1e-9));
    }
    report.runs.push_back(std::move(run));
  }
  report.used_after_bytes = memory.now();
  return report;
}

std::vector<std::string> problems_of(const BudgetReport& report) {
  std::vector<std::string> problems;
  for (const BudgetRun& run : report.runs) {
    if (run.budget_bytes && run.peak_bytes() > *run.budget_bytes) {
      const auto most =
          std::max_element(run.phases.begin(), run.phases.end(), [](const PhaseRun& a, const PhaseRun& b) { return a.peak_bytes < b.peak_bytes; });
      problems.push_back(fmt::format("{}: {} bytes were in use in '{}', {} are allowed", name_of(run), run.peak_bytes(), most->name, *run.budget_bytes));
    }
    if (!run.equals_first)
      problems.push_back(fmt::format("{}: the picture {} differs from {} without a budget", name_of(run), run.picture, report.runs[0].picture));
    if (run.colors < 2) problems.push_back(fmt::format("{}: the picture has one colour, so it proves nothing", name_of(run)));
  }
  return problems;
}

}  // namespace octavo
