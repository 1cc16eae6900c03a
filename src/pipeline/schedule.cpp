#include "pipeline/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace octavo {
namespace {

constexpr double kLogSnrMax = 18;  // spec section 8.1: t_min = 1 / (1 + e^9), t_max = 1 / (1 + e^-7.5)
constexpr double kLogSnrMin = -15;
constexpr double kReferencePixels = 512.0 * 512.0;  // where the mean is mu itself

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The model time as the reference hands it on: sigma as a timestep of 1000, and back, each a float32 operation. It differs from float32(t) by up
// to 1.2e-7, which the time embedding multiplies by 1e4: with float32(t) the golden latents are 3e-4 away instead of 1e-5.
float model_time(float sigma) {
  const float timestep = sigma * 1000.0f;
  return 1.0f - timestep / 1000.0f;
}

// A starting point for p in (0, 1/2], within 4.5e-4 of the root: Abramowitz and Stegun 26.2.23.
double first_guess(double p) {
  const double t = std::sqrt(-2 * std::log(p));
  return (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
}

}  // namespace

double inverse_normal_cdf(double p) {
  if (!(p >= 0 && p <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (p == 0) return -std::numeric_limits<double>::infinity();
  if (p == 1) return std::numeric_limits<double>::infinity();
  if (p == 0.5) return 0;
  if (p > 0.5) return -inverse_normal_cdf(1 - p);  // 1 - p is exact here

  double x = first_guess(p);
  if (p < 1e-300) return x;  // exp(x^2 / 2) below would overflow
  // Halley's rule triples the correct digits. Near 1/2 the residual is taken from erf and p - 1/2 (exact), elsewhere from erfc and p:
  // either way it keeps its relative accuracy, which a difference of two numbers near 1/2 would not.
  for (int i = 0; i < 3; ++i) {
    const double excess = p > 0.25 ? 0.5 * std::erf(x / std::numbers::sqrt2) - (p - 0.5) : 0.5 * std::erfc(-x / std::numbers::sqrt2) - p;
    const double newton = excess * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
    const double step = newton / (1 + x * newton / 2);
    x -= step;
  }
  return x;
}

Schedule make_schedule(int steps, double mu, double std_dev, std::int64_t width, std::int64_t height, ScheduleEnd end) {
  const double mean = mu + 0.5 * std::log(double(width) * double(height) / kReferencePixels);
  const double t_min = sigmoid(-kLogSnrMax / 2);
  const double t_max = sigmoid(-kLogSnrMin / 2);
  Schedule schedule;
  for (int j = 0; j <= steps; ++j) {
    const double z = mean + std_dev * inverse_normal_cdf(double(steps - j) / steps);
    const double t = std::clamp(sigmoid(-z), t_min, t_max);  // 1 - sigmoid(z), without the cancellation
    schedule.sigmas.push_back(float(1 - t));
    if (j < steps) schedule.times.push_back(model_time(schedule.sigmas.back()));
  }
  if (end == ScheduleEnd::zero) schedule.sigmas.back() = 0;
  return schedule;
}

}  // namespace octavo
