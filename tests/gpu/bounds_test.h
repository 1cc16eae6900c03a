// Floats of a GPU body against float32 results of the CPU body, each element within a bound that the caller derives.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "gpu/gpu_test.h"
#include "tensor/tensor.h"

namespace octavo::testing {

// Half a step of the stored type, relative: what one rounding may change.
inline double half_step(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0x1p-24; }

inline float element(const TensorView& view, std::int64_t index) {
  float value = 0;
  load_as_float(static_cast<const std::byte*>(view.data) + index * std::int64_t(bytes_of(view.dtype)), view.dtype, 1, &value);
  return value;
}

// got within bound(i) of want plus the rounding to got's type. Dense tensors of one shape; a NaN must be a NaN.
inline void expect_within(const Tensor& got, const Tensor& want, const std::function<double(std::int64_t)>& bound, const std::string& what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const double rounding = half_step(got.dtype());
  double worst = 0;
  for (std::int64_t i = 0; i < want.shape().elements(); ++i) {
    const double a = element(got, i), b = element(want, i);
    if (std::isnan(b)) {
      ASSERT_TRUE(std::isnan(a)) << what << ", element " << i << ": " << a << " where a NaN belongs";
      continue;
    }
    const double allowed = bound(i) * (1 + rounding) + std::fabs(b) * rounding + (got.dtype() == DType::f16 ? 0x1p-25 : 0.0);
    ASSERT_LE(std::fabs(a - b), allowed) << what << ", element " << i << ": " << a << " against " << b;
    if (allowed > 0) worst = std::max(worst, std::fabs(a - b) / allowed);
  }
  ::testing::Test::RecordProperty("worst_share_of_bound", std::to_string(worst));
}

// Gaussian numbers as `dtype` holds them.
inline Tensor gaussian(std::mt19937_64& random, DType dtype, Shape shape, float magnitude = 1) {
  std::normal_distribution<float> gauss;
  std::vector<float> values(std::size_t(shape.elements()));
  for (float& value : values) value = magnitude * gauss(random);
  Tensor tensor(dtype, shape, Device{}, "test input");
  store_from_float(values.data(), shape.elements(), dtype, tensor.view().data);
  return tensor;
}

// |x| in float32.
inline Tensor magnitudes(const TensorView& x) {
  Tensor out = to_float_tensor(x);
  for (std::int64_t i = 0; i < out.shape().elements(); ++i) out.as<float>()[i] = std::fabs(out.as<float>()[i]);
  return out;
}

}  // namespace octavo::testing
