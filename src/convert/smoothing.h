// SmoothQuant without a vector at run time: the part of an outlier that a channel's activation has too much moves into the weights that read it,
// and out of whatever produces it (a norm's weight, or the rows of a matrix).   Xiao et al. 2022, equation 4
//   s[k] = max|x[k]|^alpha / max|w[k]|^(1 - alpha),   w'[n,k] = w[n,k] · s[k],   producer'[k] = producer[k] / s[k]
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/calibration.h"
#include "models/quantization_policy.h"
#include "weights/weight_store.h"

namespace octavo {

// Changes to the float weights before they are quantised.
struct SmoothingPlan {
  struct Rows {
    std::int64_t first = 0;
    std::vector<float> divisor{};
  };
  std::map<std::string, std::vector<float>, std::less<>> columns{};  // by module: multiply column k
  std::map<std::string, Rows, std::less<>> rows{};                   // by module: divide rows [first, first + size)
  std::map<std::string, std::vector<float>, std::less<>> vectors{};  // by tensor: divide
  int sites = 0, skipped_sites = 0;                                  // skipped: never seen in calibration, or a layer of it is not quantised

  // What the columns of a module's matrix are multiplied by; null if they stay.
  const std::vector<float>* column_factors(std::string_view module) const;
  // What one row of it is divided by.
  float row_divisor(std::string_view module, std::int64_t row) const;
  // One row of a module's matrix.
  void apply(const std::string& module, std::int64_t row, std::vector<float>& w) const;
};

// `is_quantized(module)`: only such layers may change. Channels that were never active, and weights that are zero, are left alone.
template <class IsQuantized>
SmoothingPlan plan_smoothing(const WeightStore& store, const ActivationRecord& record, double alpha, IsQuantized is_quantized);

// s for one place. `weight_absmax` and `activation_absmax` [K].
std::vector<float> smoothing_vector(const std::vector<float>& activation_absmax, const std::vector<float>& weight_absmax, double alpha);

// max_n |w[n,k]| over all rows of a matrix.
std::vector<float> column_absmax(const StoredLinear& linear);

template <class IsQuantized>
SmoothingPlan plan_smoothing(const WeightStore& store, const ActivationRecord& record, double alpha, IsQuantized is_quantized) {
  SmoothingPlan plan;
  for (const models::SmoothingSite& site : models::smoothing_sites(store)) {
    bool usable = site.module.empty() || is_quantized(site.module);
    for (const std::string& reader : site.readers) usable = usable && is_quantized(reader) && record.contains(reader);
    if (!usable) {
      ++plan.skipped_sites;
      continue;
    }
    std::vector<float> weights, activations = record.find(site.readers[0])->second.absmax;
    for (const std::string& reader : site.readers) {
      const std::vector<float> of_reader = column_absmax(store.linear(reader));
      weights.resize(of_reader.size());
      for (std::size_t k = 0; k < of_reader.size(); ++k) weights[k] = std::max(weights[k], of_reader[k]);
    }
    const std::vector<float> s = smoothing_vector(activations, weights, alpha);
    for (const std::string& reader : site.readers) plan.columns[reader] = s;
    if (site.module.empty()) {
      plan.vectors[site.vector] = s;
    } else {
      plan.rows[site.module] = {site.first_row, s};
    }
    ++plan.sites;
  }
  return plan;
}

}  // namespace octavo
