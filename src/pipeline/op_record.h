// From the ops of a few equal passes to rows: medians over passes, then everything of one kind together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/op_timer.h"
#include "pipeline/model_run.h"

namespace octavo {

struct TimedOp {
  OpWork work{};
  std::string kernel{};
  double seconds = 0;
};

// "layers.*.attention.o" for "layers.13.attention.o": path elements that are numbers become stars.
std::string without_numbers(const std::string& name);

// Rows in the order in which their first op ran. Every pass must have the same ops in the same order; `clock_seconds` is taken off each op, which
// stays at least 0. Throws InternalError if passes differ.
std::vector<OpRow> rows_of(const std::string& part, std::span<const std::vector<TimedOp>> passes, double clock_seconds, const DeviceCaps& caps);

}  // namespace octavo
