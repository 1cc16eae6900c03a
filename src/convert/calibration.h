// What the projections of a model read while it draws: how large every input channel gets, and a few of the rows themselves.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nn/activation_observer.h"

namespace octavo {

// Of one projection's input [M, K], over all rows seen.
struct InputStatistics {
  static constexpr int kSampleRows = 32;

  std::vector<float> absmax{};       // by channel
  std::vector<double> square_sum{};  // by channel
  std::int64_t rows = 0;
  std::vector<float> sample{};  // [sample_rows(), K]: rows picked by their number alone, each equally likely, the same ones in every run
  std::vector<std::uint64_t> sample_keys{};

  std::int64_t columns() const { return std::int64_t(absmax.size()); }
  std::int64_t sample_rows() const { return std::int64_t(sample_keys.size()); }
  void add_row(const float* row, std::int64_t count);
};

// By module.
using ActivationRecord = std::map<std::string, InputStatistics, std::less<>>;

// The outliers of one projection's input, in numbers a person can read.
struct InputSummary {
  static constexpr int kProfileBins = 48;

  double largest = 0;             // max |x|
  double rms = 0;                 // root mean square of all numbers
  double outlier_ratio = 0;       // largest / rms; Gaussian rows have about 5
  int worst_channel = 0;          // with the largest max |x[k]|
  double channel_ratio = 0;       // that maximum / the median channel's maximum; 1: all channels alike
  int outlier_channels = 0;       // whose maximum is over 6 times the median channel's
  std::vector<double> profile{};  // max |x[k]| of neighbouring channels, in at most kProfileBins bins, in channel order
};
InputSummary summarize(const InputStatistics& input);

class ActivationStatistics final : public nn::ActivationObserver {
 public:
  // Progress and advice go on to `outer`.
  explicit ActivationStatistics(Observer& outer) : outer_(outer) {}

  void on_activations(std::string_view component, std::string_view module, const TensorView& x) override;
  void on_progress(std::string_view part, int picture, int step, int steps) override { outer_.on_progress(part, picture, step, steps); }
  void on_advisory(std::string_view line) override { outer_.on_advisory(line); }
  bool cancelled() override { return outer_.cancelled(); }

  // Empty if the component was never run.
  const ActivationRecord& of(std::string_view component) const;

 private:
  Observer& outer_;
  std::map<std::string, ActivationRecord, std::less<>> records_{};
};

}  // namespace octavo
