#include "convert/calibration.h"

#include <algorithm>
#include <cmath>

namespace octavo {
namespace {

constexpr double kOutlierChannel = 6;

// A number between rows that looks random and depends on nothing but the row's place (splitmix64).
std::uint64_t key_of(std::int64_t row) {
  std::uint64_t z = (std::uint64_t(row) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

// The sample is the rows with the smallest keys so far.
void InputStatistics::add_row(const float* row, std::int64_t count) {
  absmax.resize(std::size_t(count));
  square_sum.resize(std::size_t(count));
  for (std::size_t k = 0; k < absmax.size(); ++k) {
    absmax[k] = std::max(absmax[k], std::fabs(row[k]));  // NaN is passed over: max(a, NaN) is a
    square_sum[k] += double(row[k]) * row[k];
  }
  const std::uint64_t key = key_of(rows++);
  if (sample_keys.size() < std::size_t(kSampleRows)) {
    sample_keys.push_back(key);
    sample.insert(sample.end(), row, row + count);
    return;
  }
  const auto largest = std::max_element(sample_keys.begin(), sample_keys.end());
  if (key >= *largest) return;
  *largest = key;
  std::copy_n(row, count, sample.begin() + (largest - sample_keys.begin()) * count);
}

InputSummary summarize(const InputStatistics& input) {
  InputSummary summary;
  const std::vector<float>& absmax = input.absmax;
  if (absmax.empty() || input.rows == 0) return summary;
  double squares = 0;
  for (const double sum : input.square_sum) squares += sum;
  const auto worst = std::max_element(absmax.begin(), absmax.end());
  std::vector<float> sorted = absmax;
  std::nth_element(sorted.begin(), sorted.begin() + std::ptrdiff_t(sorted.size() / 2), sorted.end());
  const double median = sorted[sorted.size() / 2];
  summary.largest = *worst;
  summary.rms = std::sqrt(squares / (double(input.rows) * double(absmax.size())));
  summary.outlier_ratio = summary.rms > 0 ? summary.largest / summary.rms : 0;
  summary.worst_channel = int(worst - absmax.begin());
  summary.channel_ratio = median > 0 ? summary.largest / median : 0;
  summary.outlier_channels = int(std::count_if(absmax.begin(), absmax.end(), [&](float x) { return median > 0 && x > kOutlierChannel * median; }));
  const std::size_t bins = std::min<std::size_t>(InputSummary::kProfileBins, absmax.size());
  summary.profile.resize(bins);
  for (std::size_t k = 0; k < absmax.size(); ++k) {
    double& bin = summary.profile[k * bins / absmax.size()];
    bin = std::max(bin, double(absmax[k]));
  }
  return summary;
}

void ActivationStatistics::on_activations(std::string_view component, std::string_view module, const TensorView& x) {
  ActivationRecord& of_component = records_.try_emplace(std::string(component)).first->second;
  InputStatistics& input = of_component.try_emplace(std::string(module)).first->second;
  std::vector<float> row(std::size_t(x.columns()));
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    load_as_float(x.row_bytes(m), x.dtype, x.columns(), row.data());
    input.add_row(row.data(), x.columns());
  }
}

const ActivationRecord& ActivationStatistics::of(std::string_view component) const {
  static const ActivationRecord none;
  const auto found = records_.find(component);
  return found == records_.end() ? none : found->second;
}

}  // namespace octavo
