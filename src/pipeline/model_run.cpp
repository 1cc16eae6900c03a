#include "pipeline/model_run.h"

namespace octavo {

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
