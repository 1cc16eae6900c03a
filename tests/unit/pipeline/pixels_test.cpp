#include "pipeline/pixels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace octavo {
namespace {

TensorView view_of(std::vector<float>& values) { return {values.data(), DType::f32, Shape{std::int64_t(values.size())}}; }

TEST(Pixels, ends_clamp_and_halves_go_to_even) {
  // x = 0 is the half 127.5, which goes to 128; -0.9921875 gives 0.996.
  std::vector<float> x{-1.0f, 1.0f, 0.0f, -2.0f, 7.0f, -0.9921875f, std::nextafterf(0.0f, 1.0f)};
  EXPECT_THAT(to_bytes(view_of(x)), testing::ElementsAre(0, 255, 128, 0, 255, 1, 128));
}

TEST(Pixels, every_byte_survives_the_way_back) {
  std::vector<float> x;
  for (int byte = 0; byte < 256; ++byte) x.push_back(float(byte) / 127.5f - 1.0f);
  const auto bytes = to_bytes(view_of(x));
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(bytes[std::size_t(byte)], byte);
}

TEST(Pixels, unit_range_is_the_same_picture_before_rounding) {
  std::vector<float> x{-3.0f, -1.0f, -0.25f, 0.5f, 1.0f, 2.0f};
  std::vector<float> unit(x.size());
  to_unit_range(view_of(x), view_of(unit));
  EXPECT_THAT(unit, testing::ElementsAre(0.0f, 0.0f, 0.375f, 0.75f, 1.0f, 1.0f));
}

TEST(Pixels, nan_is_found_and_never_undefined) {
  std::vector<float> x{0.0f, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_FALSE(all_finite(view_of(x)));
  EXPECT_EQ(to_bytes(view_of(x))[1], 0);
  x[1] = -std::numeric_limits<float>::infinity();
  EXPECT_FALSE(all_finite(view_of(x)));
  EXPECT_EQ(to_bytes(view_of(x))[1], 0);
  x[1] = 1e30f;
  EXPECT_TRUE(all_finite(view_of(x)));
}

}  // namespace
}  // namespace octavo
