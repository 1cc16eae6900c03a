#include "api/budget_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace octavo {
namespace {

double slowdown(const BudgetReport& report, const BudgetRun& run) {
  const double first = report.runs[0].step.median;
  return first > 0 ? run.step.median / first : 0;
}

std::string gb(std::int64_t bytes) { return bytes == 0 ? "-" : fmt::format("{:.3f}", double(bytes) * 1e-9); }

std::string label_of(const BudgetRun& run) { return run.budget_bytes ? memory_size_text(*run.budget_bytes) : "none"; }

std::string plan_of(const BudgetRun& run) {
  if (!run.plan) return "not counted";
  const ResidencyChoice& choice = run.plan->choice;
  if (choice.streams()) return fmt::format("{} + {} layers streamed", choice.cond_streamed, choice.uncond_streamed);
  return fmt::format("all resident{}{}", run.plan->runs_beside ? ", both branches at once" : "", choice.lends_scratch ? ", scratch lent to the decoder" : "");
}

}  // namespace

std::string budget_text(const BudgetReport& report) {
  std::string text = fmt::format("{}, random weights, {}, {}x{}, {} text tokens, {} steps, on {}; GB are powers of ten, memory is that of the whole GPU\n",
                                 report.model, report.precision, report.size, report.size, report.text, report.steps, report.gpu);
  text += fmt::format("  in use before {} GB, with everything gone {} GB ({} GB are planned for CUDA itself)\n\n", gb(report.used_before_bytes),
                      gb(report.used_after_bytes), gb(kRuntimeBytes));
  text += fmt::format("  {:>8} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9}  {:<16} {:>8}  {:<9} plan\n", "budget", "planned", "peak", "step ms", "slowdown", "copied",
                      "load s", "picture", "colours", "same");
  for (const BudgetRun& run : report.runs) {
    text += fmt::format("  {:>8} {:>9} {:>9} {:>9.2f} {:>9.2f}x {:>9} {:>9.2f}  {:<16} {:>8}  {:<9} {}\n", label_of(run),
                        gb(run.plan ? run.plan->peak_bytes() : 0), gb(run.peak_bytes()), run.step.median * 1e3, slowdown(report, run),
                        gb(run.copied_bytes_of_step), run.phase_seconds("load"), run.picture, run.colors, run.equals_first ? "yes" : "DIFFERENT", plan_of(run));
  }
  text += "\n  Part by part: planned GB, measured GB, seconds. 'copied' above: GB from host to GPU in a step\n";
  for (const BudgetRun& run : report.runs) {
    text += fmt::format("  {:>8}", label_of(run));
    for (const PhaseRun& phase : run.phases)
      text += fmt::format("   {} {} {} {:.2f}", phase.name, gb(phase.planned_bytes), gb(phase.peak_bytes), phase.seconds);
    text += "\n";
  }
  for (const std::string& problem : problems_of(report)) text += fmt::format("  WRONG: {}\n", problem);
  return text;
}

Json budget_json(const BudgetReport& report) {
  Json runs = Json::array();
  for (const BudgetRun& run : report.runs) {
    Json phases = Json::array();
    for (const PhaseRun& phase : run.phases)
      phases.push_back({{"name", phase.name}, {"planned_bytes", phase.planned_bytes}, {"peak_bytes", phase.peak_bytes}, {"seconds", phase.seconds}});
    Json json = Json::object();
    json["budget_bytes"] = run.budget_bytes ? Json(*run.budget_bytes) : Json(nullptr);
    if (run.plan) {
      json["planned_bytes"] = run.plan->peak_bytes();
      json["planned_streamed_bytes_of_step"] = run.plan->streamed_bytes;
      json["transformer_streamed"] = run.plan->choice.cond_streamed;
      json["unconditional_transformer_streamed"] = run.plan->choice.uncond_streamed;
      json["preparation_stays"] = run.plan->choice.keeps_conditioning;
      json["both_branches_at_once"] = run.plan->runs_beside;
      json["text_encoder_whole"] = run.plan->keeps_text_whole;
    }
    json["peak_bytes"] = run.peak_bytes();
    json["step"] = {{"median_s", run.step.median}, {"p10_s", run.step.p10}, {"p90_s", run.step.p90}};
    json["slowdown"] = slowdown(report, run);
    json["copied_bytes_of_step"] = run.copied_bytes_of_step;
    json["picture"] = run.picture;
    json["colors"] = run.colors;
    json["equals_first"] = run.equals_first;
    json["phases"] = std::move(phases);
    runs.push_back(std::move(json));
  }
  return {{"model", report.model},
          {"precision", report.precision},
          {"gpu", report.gpu},
          {"size", report.size},
          {"text", report.text},
          {"steps", report.steps},
          {"used_before_bytes", report.used_before_bytes},
          {"used_after_bytes", report.used_after_bytes},
          {"runtime_planned_bytes", kRuntimeBytes},
          {"margin_bytes", kMarginBytes},
          {"problems", problems_of(report)},
          {"runs", std::move(runs)}};
}

}  // namespace octavo
