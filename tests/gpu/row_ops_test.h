// Rows with every kind of trouble, and the comparison that numerics.md section 3 asks of a fused op.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/row_math.h"
#include "gpu/gpu_test.h"
#include "quant/quantize.h"

namespace octavo::testing {

// Gaussian [rows, columns] with a different magnitude in every row. With trouble: row 1 zero, row 2 a NaN, row 3 an infinity,
// row 4 one huge outlier, row 5 so small that 127/absmax overflows.
inline Tensor random_rows(std::mt19937_64& random, DType dtype, std::int64_t rows, std::int64_t columns, bool with_trouble) {
  std::normal_distribution<float> gauss;
  std::vector<float> x(std::size_t(rows * columns));
  for (std::int64_t m = 0; m < rows; ++m) {
    const float magnitude = std::ldexp(1.0f, int(random() % 9) - 4);
    for (std::int64_t k = 0; k < columns; ++k) x[std::size_t(m * columns + k)] = magnitude * gauss(random);
    if (!with_trouble || columns == 0) continue;
    float* row = x.data() + m * columns;
    const auto somewhere = std::int64_t(random() % std::uint64_t(columns));
    if (m == 1) std::fill_n(row, columns, 0.0f);
    if (m == 2) row[somewhere] = std::numeric_limits<float>::quiet_NaN();
    if (m == 3) row[somewhere] = -std::numeric_limits<float>::infinity();
    if (m == 4) row[somewhere] = dtype == DType::f16 ? 60000.0f : 3e30f;
    if (m == 5) std::fill_n(row, columns, 1e-39f);  // f16: zero
  }
  Tensor tensor(dtype, {rows, columns}, Device{}, "test rows");
  store_from_float(x.data(), rows * columns, dtype, tensor.view().data);
  return tensor;
}

// Codes and scales of one device, poisoned so that an unwritten element shows.
struct Codes {
  Tensor q{};
  Tensor scale{};
  int group = 0;

  Codes(std::int64_t rows, std::int64_t columns, int rotation_group, Device device)
      : q(DType::s8, {rows, columns}, device), scale(DType::f32, {rows}, device), group(rotation_group) {}
  QuantizedView view() const { return {q, scale, group}; }
};

inline Tensor poisoned(DType dtype, Shape shape) {
  Tensor tensor(dtype, shape, Device{}, "poison");
  std::memset(tensor.view().data, 0x81, tensor.bytes());  // code -127, a tiny negative float: neither is an accident
  return tensor;
}

inline std::int64_t ulps_between(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<std::int64_t>::max();
  const auto order = [](float x) {
    const auto bits = std::bit_cast<std::int32_t>(x);
    return std::int64_t(bits < 0 ? std::numeric_limits<std::int32_t>::min() - std::int64_t(bits) : bits);
  };
  return std::llabs(order(a) - order(b));
}

// Ulps by which the CPU body's own 1/sqrt(mean square) is off for each row, measured against float64: the orders of the two sums differ, and neither is exact.
inline std::vector<std::int64_t> norm_slack(const TensorView& x) {
  std::vector<std::int64_t> slack;
  std::vector<float> row(static_cast<std::size_t>(x.columns()));
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    load_as_float(x.row_bytes(m), x.dtype, x.columns(), row.data());
    double exact = 0;
    for (const float value : row) exact += double(value) * double(value);
    const double off = std::sqrt(double(cpu::sum_squares(row.data(), x.columns(), 0.0f)) / exact) - 1;
    slack.push_back(std::isfinite(off) ? std::int64_t(std::ceil(std::fabs(off) * 0x1p24)) : 0);  // an ulp is at least 2^-24 of its number
  }
  return slack;
}

// Ulps between the scales of a norm's two bodies, beyond the CPU's own slack. Each rounds about seven times on the way (mean, root, quotient, three factors,
// 127), half an ulp at most and 0.3 ulp in the mean square: together 1.1 ulp, so that 2 (numerics.md section 3) is passed by 1 row in 80, in whichever order a
// body multiplies, and 6 by none. Both measured on 60 000 simulated rows: 1.2 % above 2, none above 5.
inline constexpr std::int64_t kMostNormUlps = 6;
inline constexpr double kNormRowsAbove2 = 0.05;

// numerics.md section 3: scales within 2 ulp (a norm: see above), codes differ by at most 1 on at most 0.1 % of them (and 2, so that a row of 8 may).
inline void expect_close_codes(const Tensor& q, const Tensor& scale, const Codes& expected, const std::string& what,
                               const std::vector<std::int64_t>& slack = {}) {
  const std::int64_t rows = expected.q.shape()[0];
  const std::int64_t count = expected.q.shape().elements();
  std::int64_t above = 0;
  for (std::int64_t m = 0; m < rows; ++m) {
    const std::int64_t ulps = ulps_between(scale.as<float>()[m], expected.scale.as<float>()[m]);
    const std::int64_t allowed = slack.empty() ? 0 : slack[std::size_t(m)];
    ASSERT_LE(ulps, allowed + (slack.empty() ? 2 : kMostNormUlps))
        << what << ", row " << m << ": " << scale.as<float>()[m] << " against " << expected.scale.as<float>()[m];
    if (ulps > allowed + 2) ++above;
  }
  EXPECT_LE(double(above), kNormRowsAbove2 * double(rows) + 2) << what;
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const int distance = std::abs(int(q.as<std::int8_t>()[i]) - int(expected.q.as<std::int8_t>()[i]));
    ASSERT_LE(distance, 1) << what << ", row " << i / expected.q.shape()[1] << ", column " << i % expected.q.shape()[1];
    different += distance;
  }
  EXPECT_LE(different, count / 1000 + 2) << what;
}

inline void expect_equal_codes(const Tensor& q, const Tensor& scale, const Codes& expected, const std::string& what) {
  const std::int64_t rows = expected.q.shape()[0];
  const std::int64_t columns = expected.q.shape()[1];
  for (std::int64_t m = 0; m < rows; ++m) {
    ASSERT_EQ(ulps_between(scale.as<float>()[m], expected.scale.as<float>()[m]), 0)
        << what << ", row " << m << ": scale " << scale.as<float>()[m] << " against " << expected.scale.as<float>()[m];
    for (std::int64_t k = 0; k < columns; ++k) {
      ASSERT_EQ(int(q.as<std::int8_t>()[m * columns + k]), int(expected.q.as<std::int8_t>()[m * columns + k])) << what << ", row " << m << ", column " << k;
    }
  }
}

// Floats that went through slightly different float32 values before rounding to `dtype`: at most one step of dtype apart, seldom.
// float32 itself: within `f32_ulps`, relative to the largest magnitude of the row where cancellation can occur.
inline void expect_close_floats(const Tensor& y, const Tensor& expected, double most_different, int f32_ulps, const std::string& what) {
  const std::int64_t count = expected.shape().elements();
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    float a = 0;
    float b = 0;
    load_as_float(static_cast<const std::byte*>(y.view().data) + i * std::int64_t(bytes_of(y.dtype())), y.dtype(), 1, &a);
    load_as_float(static_cast<const std::byte*>(expected.view().data) + i * std::int64_t(bytes_of(expected.dtype())), expected.dtype(), 1, &b);
    const std::int64_t step = y.dtype() == DType::f32 ? f32_ulps : y.dtype() == DType::bf16 ? 1 << 16 : 1 << 13;
    const bool is_tiny = std::fabs(a) < 1e-4f && std::fabs(b) < 1e-4f;  // f16 subnormals step wider; nothing is judged there but the sign of life
    if (is_tiny) continue;
    ASSERT_LE(ulps_between(a, b), step) << what << ", element " << i << ": " << a << " against " << b;
    if (ulps_between(a, b) != 0) ++different;
  }
  if (y.dtype() != DType::f32) {
    EXPECT_LE(double(different), most_different * double(count) + 2) << what;
  }
}

}  // namespace octavo::testing
