// What a quantiser should know about the networks of this room without knowing their names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/weight_store.h"

namespace octavo::models {

// Parts of module names of denoisers that are better left unquantised.
std::span<const std::string_view> sensitive_modules();

// A place where a channel can be made smaller on one side and larger on the other without changing the result: what `readers` read is, channel by
// channel, proportional to the entries of a vector, or to consecutive rows of a matrix.
struct SmoothingSite {
  std::vector<std::string> readers{};  // modules that read these channels, and nothing else does
  std::string vector{};                // a norm's weight; or
  std::string module{};                // a matrix,
  std::int64_t first_row = 0;          // from this row on
};

// Empty if the checkpoint is not of a network that is known here.
std::vector<SmoothingSite> smoothing_sites(const WeightStore& store);

}  // namespace octavo::models
