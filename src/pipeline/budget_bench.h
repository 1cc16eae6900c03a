// One picture of random weights, drawn by the pipeline as `generate` draws it, without a budget and within several: how much memory it takes, how long, and
// whether the picture stays the same byte for byte.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "pipeline/model_run.h"
#include "pipeline/residency.h"
#include "quant/precision.h"

namespace octavo {

struct BudgetQuestion {
  std::string model{};  // as models::random_model_names
  std::vector<std::int64_t> budgets{};
  int size = 1024;
  int text = 256;  // tokens, the chat template included
  int steps = 4;   // at least 2: the first is not timed
  Precision precision = precision::w8a8;
  Device device{};
  std::function<void(const std::string&)> progress{};  // one line a run; may be empty
};

// What lay between two reports of the pipeline: "load", then the phases of ResidencyPlan.
struct PhaseRun {
  std::string name{};
  std::int64_t planned_bytes = 0;  // 0: not planned
  std::int64_t peak_bytes = 0;     // in use on the device by everybody, MemoryWatch
  double seconds = 0;
};

struct BudgetRun {
  std::optional<std::int64_t> budget_bytes{};  // none: whatever is free
  std::optional<ResidencyPlan> plan{};         // none: nobody counts (the CPU without a budget)
  std::vector<PhaseRun> phases{};
  TimeSpread step{};                      // without the first
  std::int64_t copied_bytes_of_step = 0;  // host to device, of streamed layers
  std::string picture{};                  // a name for its bytes
  std::int64_t colors = 0;                // that differ
  bool equals_first = true;               // byte for byte the picture of the first run, which has no budget

  std::int64_t peak_bytes() const;
  double phase_seconds(std::string_view name) const;  // 0 if there is none
};

struct BudgetReport {
  std::string model{}, precision{}, gpu{};
  int size = 0, text = 0, steps = 0;
  std::int64_t used_before_bytes = 0;  // on the device, the context of this process included
  std::int64_t used_after_bytes = 0;   // when every weight and row is gone: what CUDA keeps for itself
  std::vector<BudgetRun> runs{};       // the first without a budget, then in the order of the question
};

// Throws OutOfMemory if a budget is too small, or if the model does not fit without one and cannot be streamed either.
BudgetReport bench_budgets(const BudgetQuestion& question);

// What must not be, a sentence each: a peak above its budget, a picture that differs from the first, a picture of one colour.
std::vector<std::string> problems_of(const BudgetReport& report);

// Colours that differ in a picture of RGB bytes.
std::int64_t count_colors(const std::vector<std::uint8_t>& rgb);

}  // namespace octavo
