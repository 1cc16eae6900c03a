#include "pipeline/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "io/json.h"
#include "pipeline/presets.h"

namespace octavo {
namespace {

struct PublishedSchedule {
  const char* preset;
  int width, height;
  std::vector<double> times;  // t_0 ... t_N, 7 decimals
};

// spec section 15.1
const std::vector<PublishedSchedule>& published_schedules() {
  static const std::vector<PublishedSchedule> schedules{
      {"turbo-12",
       512,
       512,
       {0.0001234, 0.0511621, 0.1003820, 0.1570482, 0.2220477, 0.2956187, 0.3775407, 0.4671100, 0.5631049, 0.6638184, 0.7672750, 0.8721652, 0.9994472}},
      {"turbo-12",
       1024,
       1024,
       {0.0001234, 0.0262526, 0.0528432, 0.0852156, 0.1248896, 0.1734463, 0.2326965, 0.3047251, 0.3918900, 0.4968025, 0.6224219, 0.7733093, 0.9994472}},
      {"turbo-12",
       2048,
       2048,
       {0.0001234, 0.0133009, 0.0271387, 0.0445040, 0.0666039, 0.0949582, 0.1316676, 0.1797496, 0.2436960, 0.3304972, 0.4518233, 0.6304028, 0.9994472}},
      {"default-20", 512, 512, {0.0001234, 0.0532270, 0.0959797, 0.1401845, 0.1865118, 0.2349880, 0.2854266, 0.3375323, 0.3909412, 0.4452436, 0.5000000,
                                0.5547564, 0.6090587, 0.6624678, 0.7145734, 0.7650120, 0.8134882, 0.8598155, 0.9040203, 0.9467730, 0.9994472}},
      {"default-20", 1024, 1024, {0.0001234, 0.0273411, 0.0504090, 0.0753755, 0.1028470, 0.1331368, 0.1664709, 0.2030309, 0.2429627, 0.2863752, 0.3333333,
                                  0.3838497, 0.4378752, 0.4952911, 0.5559037, 0.6194489, 0.6856133, 0.7541021, 0.8248513, 0.8989259, 0.9994472}},
      {"default-20", 1536, 1024, {0.0001234, 0.0224365, 0.0415430, 0.0624070, 0.0855895, 0.1114280, 0.1402059, 0.1721892, 0.2076355, 0.2467936, 0.2898979,
                                  0.3371608, 0.3887612, 0.4448333, 0.5054551, 0.5706436, 0.6403670, 0.7146097, 0.7936118, 0.8789596, 0.9994472}},
      {"default-20", 2048, 2048, {0.0001234, 0.0138600, 0.0258562, 0.0391637, 0.0542112, 0.0713158, 0.0907926, 0.1129852, 0.1382797, 0.1671166, 0.2000000,
                                  0.2375087, 0.2803075, 0.3291607, 0.3849492, 0.4486969, 0.5216222, 0.6052679, 0.7019123, 0.8164082, 0.9994472}},
      {"quality-48", 1024, 1024, {0.0001234, 0.0230133, 0.0358936, 0.0476828, 0.0590982, 0.0704112, 0.0817600, 0.0932269, 0.1048670, 0.1167197,
                                  0.1288153, 0.1411782, 0.1538287, 0.1667846, 0.1800616, 0.1936740, 0.2076354, 0.2219584, 0.2366551, 0.2517374,
                                  0.2672168, 0.2831047, 0.2994124, 0.3161515, 0.3333333, 0.3509697, 0.3690727, 0.3876547, 0.4067289, 0.4263089,
                                  0.4464096, 0.4670468, 0.4882381, 0.5100030, 0.5323638, 0.5553460, 0.5789800, 0.6033023, 0.6283581, 0.6542046,
                                  0.6809161, 0.7085932, 0.7373764, 0.7674727, 0.7992068, 0.8331382, 0.8703830, 0.9138915, 0.9994472}},
      {"quality-48", 2048, 2048, {0.0001234, 0.0116406, 0.0182748, 0.0244237, 0.0304488, 0.0364903, 0.0426224, 0.0488925, 0.0553349, 0.0619768,
                                  0.0688416, 0.0759504, 0.0833231, 0.0909793, 0.0989383, 0.1072198, 0.1158444, 0.1248331, 0.1342081, 0.1439929,
                                  0.1542125, 0.1648934, 0.1760641, 0.1877553, 0.2000000, 0.2128340, 0.2262962, 0.2404291, 0.2552792, 0.2708975,
                                  0.2873406, 0.3046713, 0.3229597, 0.3422846, 0.3627355, 0.3844145, 0.4074397, 0.4319491, 0.4581065, 0.4861099,
                                  0.5162038, 0.5486987, 0.5840034, 0.6226821, 0.6655657, 0.7139990, 0.7705116, 0.8414367, 0.9994472}},
  };
  return schedules;
}

TEST(Schedule, equals_the_published_vectors) {
  for (const PublishedSchedule& expected : published_schedules()) {
    const Preset& preset = *find_preset(expected.preset);
    const Schedule schedule = make_schedule(preset.steps, preset.mu, preset.std_dev, expected.width, expected.height, ScheduleEnd::official);
    ASSERT_EQ(schedule.sigmas.size(), expected.times.size()) << expected.preset;
    ASSERT_EQ(schedule.times.size(), std::size_t(preset.steps));
    for (std::size_t j = 0; j < expected.times.size(); ++j) {
      // A float32 printed with 7 decimals: half a unit of the last one, half an ulp below 1, and half an ulp of our sigma.
      EXPECT_NEAR(1 - double(schedule.sigmas[j]), expected.times[j], 0.5e-7 + 2 * 0x1p-25) << expected.preset << " " << expected.width << " j " << j;
      if (j == schedule.times.size()) continue;
      // sigma * 1000 / 1000: half an ulp each, of a number below 1024 and of one below 1
      EXPECT_NEAR(schedule.times[j], expected.times[j], 0.5e-7 + 2 * 0x1p-25 + 0x1p-15 / 1000 + 0x1p-25) << expected.preset << " j " << j;
    }
  }
}

// A3: the reference's own sigmas, its last 0 not listed. mu 0, std 1.5; 12 steps at 512, 20 at 1024, 48 at 2048.
TEST(Schedule, equals_the_reference_for_12_20_and_48_steps) {
  const Json expected = read_json(OCTAVO_SOURCE_DIR "/tests/golden/data/tiny-hd64/expected.json").at("sigmas_by_steps");
  for (const auto& [steps, side] : {std::pair{12, 512}, std::pair{20, 1024}, std::pair{48, 2048}}) {
    const Schedule schedule = make_schedule(steps, 0, 1.5, side, side, ScheduleEnd::zero);
    const Json& sigmas = expected.at(std::to_string(steps));
    ASSERT_EQ(sigmas.size(), std::size_t(steps));
    for (int j = 0; j < steps; ++j) EXPECT_NEAR(schedule.sigmas[std::size_t(j)], sigmas[std::size_t(j)].get<double>(), 1e-6) << steps << " steps, j " << j;
    EXPECT_EQ(schedule.sigmas.back(), 0.0f);
  }
}

TEST(Schedule, rises_strictly_between_the_clamps_for_every_preset_and_size) {
  for (const Preset& preset : kPresets) {
    for (const int side : {16, 256, 1024, 2048, 8192}) {
      const Schedule schedule = make_schedule(preset.steps, preset.mu, preset.std_dev, side, side, ScheduleEnd::official);
      EXPECT_NEAR(schedule.times.front(), 1.2339458e-4, 1.2e-7);
      EXPECT_NEAR(schedule.sigmas.back(), 1 - 0.99944722, 1e-8);
      for (std::size_t j = 0; j + 1 < schedule.sigmas.size(); ++j) EXPECT_GT(schedule.sigmas[j], schedule.sigmas[j + 1]);
    }
  }
}

TEST(Schedule, one_step_goes_from_noise_to_data) {
  const Schedule schedule = make_schedule(1, 0, 1.5, 1024, 1024, ScheduleEnd::zero);
  ASSERT_EQ(schedule.sigmas.size(), 2u);
  EXPECT_FLOAT_EQ(schedule.sigmas[0], 1 - 1.2339458e-4f);
  EXPECT_EQ(schedule.sigmas[1], 0.0f);
}

TEST(Schedule, shift_depends_on_the_pixel_product_only) {
  EXPECT_EQ(make_schedule(20, 0, 1.75, 2048, 512, ScheduleEnd::zero).sigmas, make_schedule(20, 0, 1.75, 1024, 1024, ScheduleEnd::zero).sigmas);
}

TEST(Schedule, end_changes_the_last_sigma_and_nothing_else) {
  Schedule zero = make_schedule(12, 0.5, 1.75, 512, 512, ScheduleEnd::zero);
  Schedule official = make_schedule(12, 0.5, 1.75, 512, 512, ScheduleEnd::official);
  EXPECT_EQ(zero.times, official.times);
  EXPECT_EQ(zero.sigmas.back(), 0.0f);
  EXPECT_NEAR(official.sigmas.back(), 5.5278e-4, 1e-7);
  zero.sigmas.pop_back();
  official.sigmas.pop_back();
  EXPECT_EQ(zero.sigmas, official.sigmas);
}

// Phi(ndtri(p)) = p. The error of x is eps-sized if the residual is below a few ulp of p, times the condition number p / (x phi(x)) of the inverse.
TEST(InverseNormalCdf, is_the_inverse_of_erfc) {
  for (const double p :
       {1e-300, 1e-200, 1e-100, 1e-30, 1e-16, 1e-9, 1e-4, 0.001, 1 / 48.0, 0.02425, 0.05, 0.1, 0.2, 0.25, 0.25000001, 0.3, 0.4, 0.49, 0.4999999, 0.5 - 1e-12}) {
    const double x = inverse_normal_cdf(p);
    const double back = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    // dPhi/Phi = x phi / Phi * dx/x: 2^-52 in x may move p by that factor (about x^2 in the tail) times 2^-52; erfc itself adds an ulp, its argument another
    // x^2/2 of them
    const double factor = std::max(1.0, x * x);
    EXPECT_NEAR(back / p, 1, 4 * factor * 0x1p-52) << p;
  }
}

// Reference values to 20 digits (computed with 60-digit arithmetic by bisection).
TEST(InverseNormalCdf, known_values_to_the_last_digits) {
  const std::pair<double, double> known[] = {
      {1e-10, -6.36134090240405619910e+0},
      {0.0001, -3.71901648545568055229e+0},
      {0.020833333333333332, -2.03683413170138851379e+0},
      {0.05, -1.64485362695147268795e+0},
      {0.1, -1.28155156554460043533e+0},
      {0.25, -6.74489750196081743202e-1},
      {0.3, -5.24400512708040815969e-1},
      {0.45, -1.25661346855074006160e-1},
      {0.499, -2.50663089957176623170e-3},
      {0.4999990463256836, -2.39050700629557406128e-6},
  };
  for (const auto& [p, x] : known) EXPECT_NEAR(inverse_normal_cdf(p) / x, 1, 1e-15) << p;
}

TEST(InverseNormalCdf, is_odd_around_one_half) {
  for (const double p : {0.5, 0.625, 0.75, 0.9375, 0.9990234375}) EXPECT_EQ(inverse_normal_cdf(p), -inverse_normal_cdf(1 - p)) << p;
  EXPECT_EQ(inverse_normal_cdf(0.5), 0);
}

TEST(InverseNormalCdf, ends_and_nonsense) {
  EXPECT_EQ(inverse_normal_cdf(0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(inverse_normal_cdf(1), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(inverse_normal_cdf(-0.1)));
  EXPECT_TRUE(std::isnan(inverse_normal_cdf(1.1)));
  EXPECT_TRUE(std::isnan(inverse_normal_cdf(std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace octavo
