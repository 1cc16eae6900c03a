// The logit-normal noise schedule with resolution shift. spec section 8.1
#pragma once

#include <cstdint>
#include <vector>

#include "octavo/request.h"

namespace octavo {

// Inverse of the standard normal distribution function; -inf at 0, +inf at 1, NaN outside. Relative error below 1e-15 for p >= 1e-300.
double inverse_normal_cdf(double probability);

// One picture's way from noise to data, in time order. sigma = 1 - t; t = 0 is noise, t = 1 is data.
struct Schedule {
  std::vector<float> sigmas{};  // [N + 1]; step j goes from sigmas[j] to sigmas[j + 1]
  std::vector<float> times{};   // [N]; the model time of step j, 1 - sigma in the reference's float32 steps
};

// t_j = clamp(1 - sigmoid(mean + std * ndtri(1 - j / N)), t_min, t_max),  mean = mu + ln(width * height / 512^2) / 2.
// Computed in float64, each entry rounded to float32 once. The last sigma is exactly 0, or 1 - t_max with ScheduleEnd::official.
// Trusts its input: steps >= 1, sides >= 1, mu finite, std > 0.
Schedule make_schedule(int steps, double mu, double std_dev, std::int64_t width, std::int64_t height, ScheduleEnd end);

}  // namespace octavo
