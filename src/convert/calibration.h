// What the projections of a model read while it draws: the largest magnitude of every input channel.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nn/activation_observer.h"

namespace octavo {

// absmax[k] over all rows seen, by module.
using ActivationMaxima = std::map<std::string, std::vector<float>, std::less<>>;

class ActivationStatistics final : public nn::ActivationObserver {
 public:
  // Progress and advice go on to `outer`.
  explicit ActivationStatistics(Observer& outer) : outer_(outer) {}

  void on_activations(std::string_view component, std::string_view module, const TensorView& x) override;
  void on_progress(std::string_view part, int picture, int step, int steps) override { outer_.on_progress(part, picture, step, steps); }
  void on_advisory(std::string_view line) override { outer_.on_advisory(line); }
  bool cancelled() override { return outer_.cancelled(); }

  // Empty if the component was never run.
  const ActivationMaxima& of(std::string_view component) const;

 private:
  Observer& outer_;
  std::map<std::string, ActivationMaxima, std::less<>> maxima_{};
};

}  // namespace octavo
