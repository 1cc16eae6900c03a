// How a checkpoint is to be quantised: which layers, with which rotation. Data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/nearest_names.h"
#include "convert/calibration.h"

namespace octavo {

struct QuantizeRecipe {
  int group = 0;                       // rotation (ConvRot): the largest group, a power of 4; 0: none
  bool protects_sensitive = true;      // layers that the model's makers and converters leave alone
  std::vector<std::string> protect{};  // more of them: patterns of whole module names, '*' stands for anything

  bool protects_worst = false;  // layers whose output suffers most stay in bf16 while all of them together make the file at most `budget` larger
  double budget = 0.05;         // of the file's size without them

  double smooth = 0;                              // alpha of the smoothing, 0 to 1; 0: none
  const ActivationRecord* activations = nullptr;  // of the component that is quantised; needed by `smooth` and `protects_worst`, lets errors be measured

  // Throws InvalidArgument if the group is not a power of 4 or over 4096, alpha is outside 0 to 1, or the budget is not from 0 to 1.
  void validate() const;
  std::string text() const;  // for metadata: "int8 rows, rotated by 256"
};

// The largest 4^n <= limit that divides `columns`; 0 if even 4 does not, or limit is 0.
int rotation_group_for(std::int64_t columns, int limit);

// True if the whole name fits the pattern.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace octavo
