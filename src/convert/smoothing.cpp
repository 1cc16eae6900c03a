#include "convert/smoothing.h"

#include <algorithm>
#include <cmath>

namespace octavo {

const std::vector<float>* SmoothingPlan::column_factors(std::string_view module) const {
  const auto found = columns.find(module);
  return found == columns.end() ? nullptr : &found->second;
}

float SmoothingPlan::row_divisor(std::string_view module, std::int64_t row) const {
  const auto found = rows.find(module);
  if (found == rows.end()) return 1;
  const std::int64_t index = row - found->second.first;
  return index < 0 || index >= std::int64_t(found->second.divisor.size()) ? 1 : found->second.divisor[std::size_t(index)];
}

void SmoothingPlan::apply(const std::string& module, std::int64_t row, std::vector<float>& w) const {
  if (const std::vector<float>* factors = column_factors(module)) {
    for (std::size_t k = 0; k < w.size(); ++k) w[k] = w[k] * (*factors)[k];
  }
  const float divisor = row_divisor(module, row);
  for (float& x : w) x = x / divisor;
}

std::vector<float> smoothing_vector(const std::vector<float>& activation_absmax, const std::vector<float>& weight_absmax, double alpha) {
  std::vector<float> s(weight_absmax.size(), 1.0f);
  for (std::size_t k = 0; k < s.size(); ++k) {
    const double x = activation_absmax[k], w = weight_absmax[k];
    if (!(x > 0) || !(w > 0) || !std::isfinite(x) || !std::isfinite(w)) continue;
    s[k] = float(std::clamp(std::pow(x, alpha) / std::pow(w, 1 - alpha), 1e-4, 1e4));  // beyond that it is no outlier but a fault
  }
  return s;
}

std::vector<float> column_absmax(const StoredLinear& linear) {
  std::vector<float> absmax(std::size_t(linear.in_features())), row(absmax.size());
  for (std::int64_t n = 0; n < linear.out_features(); ++n) {
    decode_rows(linear, n, 1, row.data());
    for (std::size_t k = 0; k < row.size(); ++k) absmax[k] = std::max(absmax[k], std::fabs(row[k]));
  }
  return absmax;
}

}  // namespace octavo
