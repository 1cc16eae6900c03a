// What golden tests stand on: the two tiny reference pipelines, a CPU context, and two measures of error.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo::golden {

inline std::filesystem::path data_folder() { return std::filesystem::path(OCTAVO_SOURCE_DIR) / "tests" / "golden" / "data"; }
inline std::filesystem::path demo_model() { return std::filesystem::path(OCTAVO_SOURCE_DIR) / "models" / "demo"; }

// Everything a forward call needs on the CPU.
struct CpuContext {
  ThreadPool pool;
  Arena scratch{Device{}};
  ExecContext ctx{};

  explicit CpuContext(int threads = 2, bool reference = false) : pool(threads) {
    ctx.pool = &pool;
    ctx.scratch = &scratch;
    ctx.reference = reference;
  }
  operator ExecContext&() { return ctx; }  // NOLINT: stands where a context is asked for
};

// A stored tensor as dense float32 without leading axes of 1.
inline Tensor read_float(const SafetensorsFile& file, const std::string& name) { return to_float_tensor(file.tensor(name)); }

// ‖a − b‖ / ‖b‖ over all elements, in float64.
inline double relative_l2(const TensorView& actual, const TensorView& expected) {
  EXPECT_EQ(actual.shape.elements(), expected.shape.elements());
  double error = 0, norm = 0;
  for (std::int64_t i = 0; i < expected.shape.elements(); ++i) {
    const double a = actual.as<float>()[i], b = expected.as<float>()[i];
    error += (a - b) * (a - b);
    norm += b * b;
  }
  return std::sqrt(error / norm);
}

inline double max_error(const TensorView& actual, const TensorView& expected) {
  double worst = 0;
  for (std::int64_t i = 0; i < expected.shape.elements(); ++i) {
    worst = std::max(worst, std::fabs(double(actual.as<float>()[i]) - expected.as<float>()[i]));
  }
  return worst;
}

inline bool same_bits(const Tensor& a, const Tensor& b) { return a.bytes() == b.bytes() && std::memcmp(a.as<void>(), b.as<void>(), a.bytes()) == 0; }

// [1, C, H, W] to [H, W, C].
inline Tensor channels_last(const TensorView& nchw) {
  const std::int64_t c = nchw.shape[-3], h = nchw.shape[-2], w = nchw.shape[-1];
  Tensor result(DType::f32, {h, w, c});
  for (std::int64_t i = 0; i < c; ++i) {
    for (std::int64_t p = 0; p < h * w; ++p) result.as<float>()[p * c + i] = nchw.as<float>()[i * h * w + p];
  }
  return result;
}

// One of the two reference pipelines. Both have 36 decoder layers and the 13 taps of the full model.
struct Reference {
  std::filesystem::path folder;
  SafetensorsFile expected;

  explicit Reference(const std::string& name) : folder(data_folder() / name), expected(folder / "expected.safetensors") {}

  static std::vector<int> taps() { return {0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 35}; }
  std::vector<std::int32_t> tokens(int prompt) const {
    const TensorView ids = expected.tensor("tokens." + std::to_string(prompt));
    return {ids.as<std::int32_t>(), ids.as<std::int32_t>() + ids.shape.elements()};
  }
  // Rows of prompt 0 without the left padding. [T, 416]
  Tensor features() const {
    const TensorView padded = expected.tensor("text_features");
    const std::int64_t rows = std::int64_t(tokens(0).size()), columns = padded.shape[-1];
    const TensorView all = padded.reshaped({padded.shape[-2], columns});
    return to_float_tensor(all.row_range(all.rows() - rows, rows));
  }
  Tensor noise() const {
    const TensorView noise = expected.tensor("noise");
    return to_float_tensor(noise.reshaped({noise.shape[-2], noise.shape[-1]}));
  }
};

inline const std::vector<std::string>& reference_names() {
  static const std::vector<std::string> names{"tiny-hd64", "tiny-hd256"};
  return names;
}
inline std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace octavo::golden
