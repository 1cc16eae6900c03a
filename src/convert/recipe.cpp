#include "convert/recipe.h"

#include <fmt/format.h>

#include "octavo/error.h"
#include "quant/quantize.h"

namespace octavo {
namespace {

constexpr int kLargestGroup = 4096;

}  // namespace

void QuantizeRecipe::validate() const {
  if (group != 0 && (group > kLargestGroup || !is_rotation_group(group))) {
    throw InvalidArgument(fmt::format("quantize: --group {} must be a power of 4 from 4 to {}; usual are 64 and 256", group, kLargestGroup));
  }
  if (!(budget >= 0 && budget <= 1)) throw InvalidArgument(fmt::format("quantize: --budget {} must be from 0 to 100 (percent); usual is 5", budget * 100));
  if (!(smooth >= 0 && smooth <= 1)) throw InvalidArgument(fmt::format("quantize: --smooth {} must be from 0 to 1; usual is 0.5", smooth));
}

std::string QuantizeRecipe::text() const {
  std::string words = group == 0 ? "int8 rows" : fmt::format("int8 rows, rotated by up to {}", group);
  if (smooth > 0) words += fmt::format(", smoothed with alpha {}", smooth);
  if (protects_sensitive) words += ", sensitive layers kept";
  if (protects_worst) words += fmt::format(", worst layers kept up to {:.4g} %", budget * 100);
  for (const std::string& pattern : protect) words += fmt::format(", {} kept", pattern);
  return words;
}

int rotation_group_for(std::int64_t columns, int limit) {
  int group = limit;
  while (group >= 4 && columns % group != 0) group /= 4;
  return group >= 4 ? group : 0;
}

bool matches(std::string_view pattern, std::string_view name) {
  // Greedy with one place to come back to: the last star takes one character more whenever the rest does not fit.
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace octavo
