// The estimate that chooses a kernel on an untuned machine, judged by what a GPU measured: bench/results/2026-11-30-h200-run/bench_linear.json.
#include "ops/linear/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "ops/linear/catalog.h"

namespace octavo {
namespace {

// As the driver describes the card of that record.
DeviceCaps h200() {
  DeviceCaps caps{.name = "NVIDIA H200", .sm = 90, .sm_count = 132};
  caps.shared_per_block_bytes = 227 << 10;
  caps.shared_per_sm_bytes = 228 << 10;
  caps.l2_bytes = 60 << 20;
  caps.clock_khz = 1980000;
  caps.memory_clock_khz = 3201000;
  caps.memory_bus_bits = 6016;
  return caps;
}

GemmProblem problem_of(const Json& row) {
  GemmProblem problem{.n = row.at("n").get<std::int64_t>(), .k = row.at("k").get<std::int64_t>()};
  GemmOperands& operands = problem.group[0];
  auto* aligned = reinterpret_cast<std::int8_t*>(4096);  // never read: only its alignment is asked for
  operands.x = operands.w = aligned;
  operands.x_scale = operands.w_scale = reinterpret_cast<const float*>(aligned);
  operands.y = aligned;
  operands.x_stride = operands.w_stride = problem.k;
  operands.y_stride = problem.n;
  operands.m = row.at("m").get<std::int64_t>();
  return problem;
}

std::map<std::string, double> measured(const Json& row) {
  std::map<std::string, double> microseconds;
  for (const Json& candidate : row.at("candidates")) microseconds[candidate.at("name").get<std::string>()] = candidate.at("us").get<double>();
  microseconds[row.at("chosen").at("name").get<std::string>()] = row.at("chosen").at("us").get<double>();
  return microseconds;
}

TEST(LinearEstimate, loses_little_on_shapes_that_were_measured) {
  const Json record = read_json(std::string(OCTAVO_SOURCE_DIR) + "/bench/results/2026-11-30-h200-run/bench_linear.json");
  ASSERT_EQ(record.at("rows").size(), 16u);
  double worst = 1;
  for (const Json& row : record.at("rows")) {
    const std::map<std::string, double> times = measured(row);
    const GemmKernel* kernel = chosen(problem_of(row), h200());
    ASSERT_NE(kernel, nullptr);
    const auto found = times.find(std::string(kernel->id));
    ASSERT_NE(found, times.end()) << kernel->id << " was not among the measured candidates of " << row.at("shape");
    const double best = std::min_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->second;
    std::printf("%-24s %-26s %.3f of the best\n", row.at("shape").get<std::string>().c_str(), std::string(kernel->id).c_str(), found->second / best);
    worst = std::max(worst, found->second / best);
  }
  EXPECT_LE(worst, 1.02);  // what the tuner itself is allowed (issue 3, B7)
}

}  // namespace
}  // namespace octavo
