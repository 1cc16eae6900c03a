#include "convert/recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "octavo/error.h"
#include "quant/quantize.h"

namespace octavo {
namespace {

constexpr int kLargestGroup = 4096;

// Levenshtein, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

void QuantizeRecipe::validate() const {
  if (group != 0 && (group > kLargestGroup || !is_rotation_group(group))) {
    throw InvalidArgument(fmt::format("quantize: --group {} must be a power of 4 from 4 to {}; usual are 64 and 256", group, kLargestGroup));
  }
  if (!(smooth >= 0 && smooth <= 1)) throw InvalidArgument(fmt::format("quantize: --smooth {} must be from 0 to 1; usual is 0.5", smooth));
}

std::string QuantizeRecipe::text() const {
  std::string words = group == 0 ? "int8 rows" : fmt::format("int8 rows, rotated by up to {}", group);
  if (smooth > 0) words += fmt::format(", smoothed with alpha {}", smooth);
  if (protects_sensitive) words += ", sensitive layers kept";
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

std::vector<std::string> nearest_names(std::string_view pattern, std::span<const std::string> names, std::size_t count) {
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& name : names) ranked.emplace_back(edit_distance(pattern, name), name);
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < std::min(count, ranked.size()); ++i) nearest.push_back(ranked[i].second);
  return nearest;
}

}  // namespace octavo
