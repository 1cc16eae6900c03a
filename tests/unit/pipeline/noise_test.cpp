#include "pipeline/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace octavo {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known-answer vectors that the authors of Philox published with their library (Random123, kat_vectors, philox4x32 10 rounds).
TEST(Philox, known_answers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}), (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<float> drawn(std::uint64_t seed, std::size_t count) {
  std::vector<float> values(count);
  draw_noise(seed, values);
  return values;
}

// numerics.md section 7 spelt out for the first counter of seed 0, from the known answer above.
TEST(Noise, first_four_values_follow_the_definition) {
  const Words words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const std::vector<float> values = drawn(0, 4);
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    const double u1 = (double(words[pair]) + 1) / 4294967296.0;
    const double u2 = double(words[pair + 1]) / 4294967296.0;
    EXPECT_EQ(values[pair], float(std::sqrt(-2 * std::log(u1)) * std::cos(2 * std::numbers::pi * u2)));
    EXPECT_EQ(values[pair + 1], float(std::sqrt(-2 * std::log(u1)) * std::sin(2 * std::numbers::pi * u2)));
  }
}

TEST(Noise, element_depends_on_seed_and_index_only) {
  const std::vector<float> longer = drawn(12345, 1003);
  for (const std::size_t count : {1u, 2u, 3u, 4u, 5u, 1001u}) {
    const std::vector<float> shorter = drawn(12345, count);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(shorter[i], longer[i]) << count << " " << i;
  }
}

TEST(Noise, both_halves_of_the_seed_matter) {
  const auto base = drawn(7, 8);
  EXPECT_NE(base, drawn(8, 8));
  EXPECT_NE(base, drawn(7 + (std::uint64_t(1) << 32), 8));
  EXPECT_NE(base, drawn(std::uint64_t(7) << 32, 8));
}

// Moments of 2^20 values against N(0, 1), each within 6 standard errors (variances of x, x^2, x^3, x^4: 1, 2, 15, 96).
TEST(Noise, is_gaussian) {
  const std::vector<float> values = drawn(1, 1u << 20);
  const double n = double(values.size());
  double mean = 0, square = 0, cube = 0, fourth = 0;
  for (const float value : values) {
    ASSERT_TRUE(std::isfinite(value));
    const double x = value;
    mean += x / n;
    square += x * x / n;
    cube += x * x * x / n;
    fourth += x * x * x * x / n;
  }
  EXPECT_NEAR(mean, 0, 6 / std::sqrt(n));
  EXPECT_NEAR(square, 1, 6 * std::sqrt(2 / n));
  EXPECT_NEAR(cube, 0, 6 * std::sqrt(15 / n));
  EXPECT_NEAR(fourth, 3, 6 * std::sqrt(96 / n));
}

}  // namespace
}  // namespace octavo
