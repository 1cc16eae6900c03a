// `octavo bench`: what the kernels reach, beside the limit of the hardware and beside what others reach in the same run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/describe.h"
#include "octavo/version.h"

namespace octavo {

struct BenchOptions {
  std::string device = "cuda";
  std::string shapes{};  // as in TuneOptions
  bool peers = false;    // cuBLASLt in bf16, INT8 and FP8 beside ours, if libcublasLt can be loaded
  bool explain_dispatch = false;
  bool quick = false;  // a third of the timings
  Format format = Format::text;
  std::function<void(const std::string&)> progress{};
};

// W8A8 linears: every candidate worth timing, the chosen one, and the peers. Throws Unsupported without a GPU, InvalidArgument on shapes.
OCTAVO_API std::string bench_linear(const BenchOptions& options);
// The row ops that feed them, against a device copy of the same bytes; with and without ConvRot. `shapes` is not used.
OCTAVO_API std::string bench_producers(const BenchOptions& options);

struct ModelBenchOptions {
  std::string device = "cuda";
  std::string model{};  // empty: the first name that is known
  std::string sizes = "1024";
  int text = 256;
  std::optional<int> steps{};  // 48, or 4 with budgets
  std::string precisions{};    // "w8a8,bf16"; empty: that, or "w8a8" with budgets
  std::string budgets{};       // "22GB,12GB", for bench_budgets alone
  bool quick = false;
  std::string profile_path{};  // an HTML page; empty: none
  Format format = Format::text;
  std::function<void(const std::string&)> progress{};
};

// A whole model of random weights: its parts, every op of a step beside its limit, memory. Throws Unsupported without a GPU, InvalidArgument on options,
// OutOfMemory if it does not fit.
OCTAVO_API std::string bench_model(const ModelBenchOptions& options);

// The same model drawn as `generate` draws, without a budget and then within each of options.budgets: memory, times, and whether the picture is the same.
// Throws as bench_model does.
struct BudgetBench {
  std::string report{};
  std::vector<std::string> problems{};  // a sentence each: a peak above its budget, a picture that differs
};
OCTAVO_API BudgetBench bench_budgets(const ModelBenchOptions& options);

}  // namespace octavo
