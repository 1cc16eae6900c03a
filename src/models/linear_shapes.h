// The projections of each network that benches and the tuner ask for by name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace octavo::models {

struct LinearShapeRow {
  std::string_view layer{};
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// Rows of x: 768², 1024², 1024² with 256 text tokens, 2048². Layers of one of the 34 blocks; w1 and w3 are one projection.
inline constexpr LinearShapeRow kIdeogram4Linears[] = {
    {"qkv", 2304, 13824, 4608},  {"o", 2304, 4608, 4608},  {"w1w3", 2304, 24576, 4608},  {"w2", 2304, 4608, 12288},
    {"qkv", 4096, 13824, 4608},  {"o", 4096, 4608, 4608},  {"w1w3", 4096, 24576, 4608},  {"w2", 4096, 4608, 12288},
    {"qkv", 4352, 13824, 4608},  {"o", 4352, 4608, 4608},  {"w1w3", 4352, 24576, 4608},  {"w2", 4352, 4608, 12288},
    {"qkv", 16384, 13824, 4608}, {"o", 16384, 4608, 4608}, {"w1w3", 16384, 24576, 4608}, {"w2", 16384, 4608, 12288},
};

inline constexpr std::string_view kLinearShapeSets[] = {"ideogram4"};
inline constexpr std::string_view kDefaultLinearShapeSet = kLinearShapeSets[0];

// Empty if there is no set of that name.
inline std::span<const LinearShapeRow> linear_shapes(std::string_view set) {
  if (set == kLinearShapeSets[0]) return kIdeogram4Linears;
  return {};
}

}  // namespace octavo::models
