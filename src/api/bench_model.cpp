#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "api/bench.h"
#include "api/budget_report.h"
#include "api/gpu_state.h"
#include "api/linear_shapes.h"
#include "api/model_report.h"
#include "base/build.h"
#include "base/files.h"
#include "models/random_model.h"
#include "octavo/error.h"
#include "pipeline/budget_bench.h"
#include "pipeline/model_bench.h"
#include "pipeline/residency.h"

namespace octavo {
namespace {

constexpr int kLargestSide = 4096;
constexpr int kMostText = 2048;  // what the model was trained for, the chat template included
constexpr int kMostSteps = 10000;
constexpr int kTokenPixels = 16;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Everything that can be wrong with the options, on every build and machine, before a GPU is asked for.
std::vector<ModelBenchQuestion> questions_of(const ModelBenchOptions& options) {
  ModelBenchQuestion question{.model = options.model.empty() ? std::string(models::random_model_names().front()) : options.model,
                              .sizes = {},
                              .text = options.text,
                              .steps = options.steps.value_or(options.budgets.empty() ? 48 : 4),
                              .quick = options.quick,
                              .gpu_state = {},
                              .progress = options.progress};
  models::random_model_taps(question.model);  // throws on an unknown name
  for (const std::string& word : split(options.sizes)) {
    int side = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), side);
    if (error != std::errc() || end != word.data() + word.size() || side < kTokenPixels || side > kLargestSide || side % kTokenPixels != 0) {
      throw InvalidArgument(fmt::format("bench model: --size '{}': '{}' is not a multiple of {} from {} to {}; several are separated by commas", options.sizes,
                                        word, kTokenPixels, kTokenPixels, kLargestSide));
    }
    question.sizes.push_back(side);
  }
  if (options.text < 0 || options.text > kMostText) throw InvalidArgument(fmt::format("bench model: --text {} must be from 0 to {}", options.text, kMostText));
  const int least_steps = options.budgets.empty() ? 1 : 2;  // the first is not timed there
  if (question.steps < least_steps || question.steps > kMostSteps)
    throw InvalidArgument(fmt::format("bench model: --steps {} must be from {} to {}", question.steps, least_steps, kMostSteps));
  std::vector<ModelBenchQuestion> questions;
  const std::string precisions = !options.precisions.empty() ? options.precisions : options.budgets.empty() ? "w8a8,bf16" : "w8a8";
  for (const std::string& name : split(precisions)) {
    if (name != "w8a8" && name != "bf16" && name != "fp16")
      throw InvalidArgument(
          fmt::format("bench model: --precision '{}': '{}' is not measured; known: w8a8, bf16, fp16, several with a comma", precisions, name));
    question.precision = *precision::find(name);
    questions.push_back(question);
  }
  return questions;
}

}  // namespace

std::string bench_model(const ModelBenchOptions& options) {
  std::vector<ModelBenchQuestion> questions = questions_of(options);
  const BenchGpu gpu = bench_gpu("bench model", options.device);
  std::optional<AtomicFile> page;
  if (!options.profile_path.empty()) page.emplace(options.profile_path);  // proves that it can be written
  std::vector<ModelRun> runs;
  if constexpr (build::has_cuda) {
    for (ModelBenchQuestion& question : questions) {
      question.device = gpu.device;
      question.gpu_state = [index = gpu.device.index] { return gpu_state(index).text(); };
      const std::vector<ModelRun> more = bench_model(question);
      runs.insert(runs.end(), more.begin(), more.end());
    }
  }
  if (page) {
    const std::string text = report_page(runs);
    page->write(std::as_bytes(std::span(text)));
    page->commit();
  }
  if (options.format == Format::text) {
    std::string text;
    for (const ModelRun& run : runs) text += report_text(run) + "\n";
    return text;
  }
  Json report = Json::object();
  report["what"] = "a whole model of random weights on one GPU; seconds; ops timed one by one between events, medians";
  report["version"] = describe_version(Format::text);
  report["runs"] = Json::array();
  for (const ModelRun& run : runs) report["runs"].push_back(report_json(run));
  return report.dump(1) + "\n";
}

BudgetBench bench_budgets(const ModelBenchOptions& options) {
  if (!options.profile_path.empty() || options.quick)
    throw InvalidArgument("bench model: --profile and --quick have no meaning with --vram, which draws whole pictures; leave them out");
  std::vector<std::int64_t> budgets;
  for (const std::string& word : split(options.budgets)) budgets.push_back(parse_memory_size("bench model: --vram", word));
  const std::vector<ModelBenchQuestion> questions = questions_of(options);
  (void)models::random_model_prompt(options.text);  // throws if it is too short
  const BenchGpu gpu = bench_gpu("bench model", options.device);
  std::vector<BudgetReport> reports;
  BudgetBench result;
  for (const ModelBenchQuestion& question : questions) {
    for (const int size : question.sizes) {
      reports.push_back(bench_budgets(BudgetQuestion{.model = question.model,
                                                     .budgets = budgets,
                                                     .size = size,
                                                     .text = question.text,
                                                     .steps = question.steps,
                                                     .precision = question.precision,
                                                     .device = gpu.device,
                                                     .progress = options.progress}));
      const std::vector<std::string> problems = problems_of(reports.back());
      result.problems.insert(result.problems.end(), problems.begin(), problems.end());
    }
  }
  if (options.format == Format::text) {
    for (const BudgetReport& report : reports) result.report += budget_text(report) + "\n";
    return result;
  }
  Json json = Json::object();
  json["what"] = "pictures of random weights on one GPU without and within budgets of its memory; seconds, bytes";
  json["version"] = describe_version(Format::text);
  json["reports"] = Json::array();
  for (const BudgetReport& report : reports) json["reports"].push_back(budget_json(report));
  result.report = json.dump(1) + "\n";
  return result;
}

}  // namespace octavo
