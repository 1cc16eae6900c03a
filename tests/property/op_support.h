// What the property tests of the CPU ops stand on: a context, random tensors, comparison by bits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cpu/isa.h"
#include "ops/exec_context.h"
#include "quant/quantize.h"
#include "tensor/tensor.h"

namespace octavo::test {

// A CPU context with its own threads and scratch.
class Cpu {
 public:
  explicit Cpu(int threads = 2, bool reference = false) : pool_(threads) {
    context_.pool = &pool_;
    context_.scratch = &scratch_;
    context_.reference = reference;
  }
  operator ExecContext&() { return context_; }  // NOLINT: stands wherever a context is asked for

 private:
  ThreadPool pool_;
  Arena scratch_{Device{}};
  ExecContext context_{};
};

inline std::vector<cpu::Isa> runnable_isas() {
  std::vector<cpu::Isa> isas;
  for (const cpu::Isa isa : {cpu::Isa::plain, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::vnni, cpu::Isa::amx}) {
    if (isa <= cpu::best_isa()) isas.push_back(isa);
  }
  return isas;
}

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  float normal() { return normal_(engine_); }

  Tensor floats(DType dtype, Shape shape, float scale = 1.0f) {
    Tensor tensor(dtype, shape);
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    for (float& value : values) value = scale * normal();
    if (!values.empty()) store_from_float(values.data(), std::int64_t(values.size()), dtype, tensor.as<void>());
    return tensor;
  }
  // All 256 codes, -128 too.
  Tensor codes(Shape shape, int low = -128) {
    Tensor tensor(DType::s8, shape);
    for (std::int64_t i = 0; i < shape.elements(); ++i) tensor.as<std::int8_t>()[i] = std::int8_t(integer(low, 127));
    return tensor;
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

// A copy of `dense` as columns [first, first + columns) of a wider buffer whose other columns are poison (NaN, or code 77).
class Strided {
 public:
  Strided(const TensorView& dense, std::int64_t first, std::int64_t after) : wide_(dense.dtype, {dense.rows(), first + dense.columns() + after}) {
    const std::size_t element = bytes_of(dense.dtype);
    if (wide_.bytes() > 0) std::memset(wide_.as<void>(), dense.dtype == DType::s8 ? 77 : 0xff, wide_.bytes());
    view_ = wide_.view().column_range(first, dense.columns());
    for (std::int64_t m = 0; m < dense.rows(); ++m) std::memcpy(view_.row_bytes(m), dense.row_bytes(m), std::size_t(dense.columns()) * element);
  }
  const TensorView& view() const { return view_; }

 private:
  Tensor wide_;
  TensorView view_;
};

inline ::testing::AssertionResult same_bits(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || a.rows() != b.rows() || a.columns() != b.columns())
    return ::testing::AssertionFailure() << a.shape.text() << " against " << b.shape.text();
  const std::size_t element = bytes_of(a.dtype);
  for (std::int64_t m = 0; m < a.rows(); ++m) {
    for (std::int64_t n = 0; n < a.columns(); ++n) {
      const auto* left = static_cast<const std::byte*>(a.row_bytes(m)) + std::size_t(n) * element;
      const auto* right = static_cast<const std::byte*>(b.row_bytes(m)) + std::size_t(n) * element;
      if (std::memcmp(left, right, element) != 0) return ::testing::AssertionFailure() << "bits differ first at row " << m << ", column " << n;
    }
  }
  return ::testing::AssertionSuccess();
}

// |a - b| <= bound, element by element; NaN equals NaN.
inline ::testing::AssertionResult within(const TensorView& a, const TensorView& b, const std::vector<float>& bound) {
  const Tensor left = to_float_tensor(a);
  const Tensor right = to_float_tensor(b);
  for (std::int64_t i = 0; i < left.shape().elements(); ++i) {
    const float x = left.as<float>()[i];
    const float y = right.as<float>()[i];
    const float limit = bound[bound.size() == 1 ? 0 : std::size_t(i)];
    const bool fits = (std::isnan(x) && std::isnan(y)) || x == y || std::fabs(x - y) <= limit;
    if (!fits) return ::testing::AssertionFailure() << "element " << i << ": " << x << " against " << y << ", allowed " << limit;
  }
  return ::testing::AssertionSuccess();
}

// Half an ulp of a value of this size, in relative terms.
constexpr float kEpsF32 = 0x1p-24f;
inline float store_eps(DType dtype) { return dtype == DType::bf16 ? 0x1p-8f : dtype == DType::f16 ? 0x1p-11f : kEpsF32; }

}  // namespace octavo::test
