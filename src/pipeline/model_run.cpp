#include "pipeline/model_run.h"

#include <algorithm>

namespace octavo {

TimeSpread spread_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) { return seconds[std::size_t(share * double(seconds.size() - 1) + 0.5)]; };
  return {at(0.5), at(0.1), at(0.9)};
}

bool is_of_step(const OpRow& row) { return row.part == "conditional" || row.part == "unconditional" || row.part == "guidance"; }

double ModelRun::step_ops_seconds() const {
  double sum = 0;
  for (const OpRow& row : rows) {
    if (is_of_step(row)) sum += row.count * row.seconds;
  }
  return sum;
}

double ModelRun::gap_share() const { return step.median > 0 ? 1 - step_ops_seconds() / step.median : 0; }

double ModelRun::overhead_share() const {
  double products = 0;
  for (const OpRow& row : rows) {
    if (is_of_step(row) && row.macs > 0) products += row.count * row.seconds;
  }
  return step.median > 0 ? 1 - products / step.median : 0;
}

}  // namespace octavo
