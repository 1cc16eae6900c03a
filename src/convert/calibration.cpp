#include "convert/calibration.h"

#include <algorithm>
#include <cmath>

namespace octavo {

void ActivationStatistics::on_activations(std::string_view component, std::string_view module, const TensorView& x) {
  ActivationMaxima& of_component = maxima_.try_emplace(std::string(component)).first->second;
  std::vector<float>& absmax = of_component.try_emplace(std::string(module)).first->second;
  absmax.resize(std::size_t(x.columns()));
  std::vector<float> row(absmax.size());
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    load_as_float(x.row_bytes(m), x.dtype, x.columns(), row.data());
    for (std::size_t k = 0; k < row.size(); ++k) absmax[k] = std::max(absmax[k], std::fabs(row[k]));  // NaN is passed over: max(a, NaN) is a
  }
}

const ActivationMaxima& ActivationStatistics::of(std::string_view component) const {
  static const ActivationMaxima none;
  const auto found = maxima_.find(component);
  return found == maxima_.end() ? none : found->second;
}

}  // namespace octavo
