#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "octavo/error.h"
#include "quant/quantize.h"
#include "tensor/tensor.h"

namespace octavo {
namespace {

// Every bf16 and f16 value survives the way to float and back.
TEST(Half, all_65536_values_round_trip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const bf16 b{std::uint16_t(bits)};
    const f16 h{std::uint16_t(bits)};
    if (std::isnan(to_float(b))) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(to_float(b)))));
    } else {
      ASSERT_EQ(to_bf16(to_float(b)).bits, bits);
    }
    if (std::isnan(to_float(h))) {
      EXPECT_TRUE(std::isnan(to_float(to_f16(to_float(h)))));
    } else {
      ASSERT_EQ(to_f16(to_float(h)).bits, bits);
    }
  }
}

// The neighbour chosen is the nearest one, and the even one at a tie: checked against exact arithmetic in double.
template <class Half, class Convert>
void nearest_even(Convert convert, std::uint16_t last_finite) {
  for (std::uint32_t bits = 0; bits < last_finite; ++bits) {
    const double low = to_float(Half{std::uint16_t(bits)});
    const double high = to_float(Half{std::uint16_t(bits + 1)});
    const auto middle = float((low + high) / 2);  // exact: one more bit than the half has
    ASSERT_EQ(convert(middle).bits, (bits & 1) ? bits + 1 : bits) << bits;
    ASSERT_EQ(convert(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(convert(std::nextafter(middle, std::numeric_limits<float>::infinity())).bits, bits + 1);
  }
}
TEST(Half, bf16_rounds_to_nearest_even) {
  nearest_even<bf16>([](float v) { return to_bf16(v); }, 0x7f7e);
}
TEST(Half, f16_rounds_to_nearest_even) {
  nearest_even<f16>([](float v) { return to_f16(v); }, 0x7bff);
}

TEST(Half, overflow_becomes_infinity) {
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_f16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(Tensor, shape_too_large_for_memory_says_so) { EXPECT_THROW(Tensor(DType::f32, {INT64_MAX / 2, 8}), OutOfMemory); }

TEST(Tensor, column_range_keeps_the_row_stride) {
  Tensor tensor = Tensor::zeros(DType::f32, {3, 8});
  for (int i = 0; i < 24; ++i) tensor.as<float>()[i] = float(i);
  const TensorView part = tensor.view().column_range(2, 3);
  EXPECT_FALSE(part.is_dense());
  EXPECT_EQ(part.row<float>(2)[1], 19.0f);
  EXPECT_EQ(part.row_range(1, 1).row<float>(0)[0], 10.0f);
}

std::vector<float> gaussian(std::size_t count, unsigned seed, float sigma = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

TEST(Quantize, error_is_at_most_half_a_step_plus_rounding) {
  const auto x = gaussian(4608, 1, 3.0f);
  std::vector<std::int8_t> q(x.size());
  const float scale = quantize_row(x.data(), std::int64_t(x.size()), q.data());
  for (std::size_t k = 0; k < x.size(); ++k) {
    // 127/a and its product with x are each rounded: 2 relative errors of 2^-24 on a value of at most 127 codes.
    ASSERT_LE(std::fabs(double(x[k]) - double(scale) * q[k]), double(scale) * (0.5 + 127 * 4 * 0x1p-24));
  }
}

TEST(Quantize, the_largest_element_becomes_127) {
  auto x = gaussian(100, 2);
  x[41] = -50.0f;
  std::vector<std::int8_t> q(100);
  quantize_row(x.data(), 100, q.data());
  EXPECT_EQ(q[41], -127);
}

TEST(Quantize, scaling_a_row_by_a_power_of_two_leaves_the_codes) {
  auto x = gaussian(333, 3);
  std::vector<std::int8_t> q(333), q2(333);
  const float scale = quantize_row(x.data(), 333, q.data());
  for (float& value : x) value *= 1024.0f;
  EXPECT_EQ(quantize_row(x.data(), 333, q2.data()), scale * 1024.0f);
  EXPECT_EQ(q, q2);
}

TEST(Quantize, all_zero_row_and_denormal_row_give_scale_zero) {
  std::vector<float> x(16, 0.0f);
  std::vector<std::int8_t> q(16, 7);
  EXPECT_EQ(quantize_row(x.data(), 16, q.data()), 0.0f);
  EXPECT_EQ(q, std::vector<std::int8_t>(16, 0));
  x[3] = 1e-40f;  // 127 / 1e-40 overflows
  EXPECT_EQ(quantize_row(x.data(), 16, q.data()), 0.0f);
  EXPECT_EQ(q, std::vector<std::int8_t>(16, 0));
}

TEST(Quantize, nan_and_infinity_are_never_hidden) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    auto x = gaussian(64, 4);
    x[17] = bad;
    std::vector<std::int8_t> q(64, 7);
    EXPECT_TRUE(std::isnan(quantize_row(x.data(), 64, q.data())));
    EXPECT_EQ(q, std::vector<std::int8_t>(64, 0));
  }
}

TEST(Rotate, twice_is_the_identity_and_lengths_stay) {
  for (const int group : {4, 16, 64, 256}) {
    const auto x = gaussian(512, unsigned(group));
    auto y = x;
    rotate_row(y.data(), 512, group);
    double before = 0, after = 0;
    for (std::size_t k = 0; k < x.size(); ++k) before += double(x[k]) * x[k], after += double(y[k]) * y[k];
    EXPECT_NEAR(after / before, 1.0, 1e-6);
    rotate_row(y.data(), 512, group);
    // Each of the 2·log4(G) parts adds at most 3 roundings on values bounded by the group's norm.
    for (std::size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(y[k], x[k], 2 * 4 * 3 * 0x1p-24 * 4.0 * std::sqrt(double(group)));
  }
}

TEST(Rotate, matches_the_kronecker_power) {
  const float h[4][4] = {{1, 1, 1, -1}, {1, 1, -1, 1}, {1, -1, 1, 1}, {-1, 1, 1, 1}};
  const auto x = gaussian(16, 9);
  auto y = x;
  rotate_row(y.data(), 16, 16);
  for (int j = 0; j < 16; ++j) {
    double sum = 0;
    for (int i = 0; i < 16; ++i) sum += double(x[std::size_t(i)]) * 0.25 * h[i / 4][j / 4] * h[i % 4][j % 4];
    EXPECT_NEAR(y[std::size_t(j)], sum, 1e-5);
  }
}

TEST(Rotate, groups_are_powers_of_four) {
  for (const int good : {4, 16, 64, 256, 1024}) EXPECT_TRUE(is_rotation_group(good));
  for (const int bad : {0, 1, 2, 8, 12, 32, 128, -4}) EXPECT_FALSE(is_rotation_group(bad));
}

}  // namespace
}  // namespace octavo
