#include "convert/calibration.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "convert/output_error.h"
#include "golden/random_model.h"
#include "quant/quantize.h"

namespace octavo {
namespace {

TensorView rows_of(const Tensor& tensor, std::int64_t first, std::int64_t count) { return tensor.view().row_range(first, count); }

TEST(Calibration, the_sample_does_not_depend_on_how_the_rows_came) {
  const Tensor x = golden::random_rows({500, 16}, 1);
  Observer nobody;
  ActivationStatistics whole(nobody), pieces(nobody);
  whole.on_activations("c", "m", x);
  for (std::int64_t m = 0; m < 500; m += 125) pieces.on_activations("c", "m", rows_of(x, m, 125));
  const InputStatistics& a = whole.of("c").at("m");
  const InputStatistics& b = pieces.of("c").at("m");
  EXPECT_EQ(a.sample, b.sample);
  EXPECT_EQ(a.absmax, b.absmax);
  EXPECT_EQ(a.square_sum, b.square_sum);
  EXPECT_EQ(a.sample_rows(), InputStatistics::kSampleRows);
}

TEST(Calibration, sampled_rows_are_rows_and_come_from_everywhere) {
  constexpr int kRows = 3200;
  InputStatistics input;
  for (int m = 0; m < kRows; ++m) {
    const float row[2] = {float(m), float(-m)};
    input.add_row(row, 2);
  }
  std::set<int> seen;
  int in_first_half = 0;
  for (std::int64_t i = 0; i < input.sample_rows(); ++i) {
    const float m = input.sample[std::size_t(2 * i)];
    EXPECT_EQ(input.sample[std::size_t(2 * i + 1)], -m);
    seen.insert(int(m));
    in_first_half += m < kRows / 2 ? 1 : 0;
  }
  EXPECT_EQ(seen.size(), std::size_t(InputStatistics::kSampleRows)) << "a row was taken twice";
  // 32 fair coins: 16 ± 4 · sqrt(8)
  EXPECT_GE(in_first_half, 5);
  EXPECT_LE(in_first_half, 27);
}

TEST(Calibration, fewer_rows_than_the_sample_are_all_kept) {
  InputStatistics input;
  const float row[3] = {1, 2, 3};
  input.add_row(row, 3);
  EXPECT_EQ(input.sample, (std::vector<float>{1, 2, 3}));
}

TEST(Summary, of_an_outlier_channel) {
  InputStatistics input;
  for (int m = 0; m < 4; ++m) {
    const float row[5] = {1, -1, 1, 50, -1};
    input.add_row(row, 5);
  }
  const InputSummary summary = summarize(input);
  EXPECT_EQ(summary.worst_channel, 3);
  EXPECT_DOUBLE_EQ(summary.largest, 50);
  EXPECT_DOUBLE_EQ(summary.channel_ratio, 50);
  EXPECT_EQ(summary.outlier_channels, 1);
  EXPECT_NEAR(summary.rms, std::sqrt((4 + 2500) / 5.0), 1e-12);
  EXPECT_EQ(summary.profile, (std::vector<double>{1, 1, 1, 50, 1}));
  EXPECT_EQ(summarize(InputStatistics{}).profile.size(), 0u);
}

struct Layer {
  Tensor w;
  std::vector<std::vector<std::int8_t>> codes{};
  std::vector<float> scales{};
};

Layer quantized(Tensor w, int group) {
  Layer layer{std::move(w)};
  const std::int64_t columns = layer.w.shape()[1];
  for (std::int64_t n = 0; n < layer.w.shape()[0]; ++n) {
    if (group > 0) rotate_row(layer.w.view().row<float>(n), columns, group);
    layer.codes.emplace_back(columns);
    layer.scales.push_back(quantize_weight_row(layer.w.view().row<float>(n), columns, layer.codes.back().data()));
  }
  return layer;
}

double error_of(const OutputProbe& probe, const Layer& layer) {
  OutputErrorSums sums;
  for (std::size_t n = 0; n < layer.codes.size(); ++n) {
    sums += probe.channel(layer.w.view().row<float>(std::int64_t(n)), layer.codes[n].data(), layer.scales[n], 1);
  }
  return sums.relative();
}

InputStatistics statistics_of(const Tensor& x) {
  InputStatistics input;
  for (std::int64_t m = 0; m < x.shape()[0]; ++m) input.add_row(x.view().row<float>(m), x.shape()[1]);
  return input;
}

Tensor integers(Shape shape, std::uint32_t seed) {
  Tensor tensor = golden::random_rows(shape, seed);
  for (std::int64_t i = 0; i < shape.elements(); ++i) tensor.as<float>()[i] = std::clamp(std::round(30 * tensor.as<float>()[i]), -127.0f, 127.0f);
  for (std::int64_t m = 0; m < shape[0]; ++m) tensor.view().row<float>(m)[0] = 127;  // the largest: scales are 1
  return tensor;
}

TEST(OutputProbe, codes_that_are_exact_cost_nothing) {
  const Tensor x = integers({8, 300}, 1);
  EXPECT_LE(error_of(OutputProbe(statistics_of(x), nullptr, 0), quantized(integers({5, 300}, 2), 0)), 1e-7);  // scales are 127/127 in float32
}

// Rounding x and rounding w are two independent noises on every product: their squares add.
TEST(OutputProbe, independent_roundings_add_in_squares) {
  const Tensor x = golden::random_rows({32, 512}, 3);
  const Layer layer = quantized(golden::random_rows({64, 512}, 4), 0);
  const auto noise = [](const float* values, const std::int8_t* q, float scale, double& error, double& norm) {
    for (int k = 0; k < 512; ++k) {
      const double difference = double(values[k]) - double(scale) * q[k];
      error += difference * difference;
      norm += double(values[k]) * values[k];
    }
  };
  double x_error = 0, x_norm = 0, w_error = 0, w_norm = 0;
  std::vector<std::int8_t> q(512);
  for (std::int64_t m = 0; m < 32; ++m) {
    const float scale = quantize_row(x.view().row<float>(m), 512, q.data());
    noise(x.view().row<float>(m), q.data(), scale, x_error, x_norm);
  }
  for (std::size_t n = 0; n < 64; ++n) noise(layer.w.view().row<float>(std::int64_t(n)), layer.codes[n].data(), layer.scales[n], w_error, w_norm);
  // 2048 outputs: their mean square is known to sqrt(2 / 2048) = 3 %, the root to 1.6 %; three of those.
  EXPECT_NEAR(error_of(OutputProbe(statistics_of(x), nullptr, 0), layer) / std::sqrt(x_error / x_norm + w_error / w_norm), 1, 0.05);
}

TEST(OutputProbe, an_outlier_channel_hurts_and_a_rotation_or_smoothing_helps) {
  Tensor x = golden::random_rows({32, 256}, 5), w = golden::random_rows({48, 256}, 6);
  const double clean = error_of(OutputProbe(statistics_of(x), nullptr, 0), quantized(golden::random_rows({48, 256}, 6), 0));
  for (std::int64_t m = 0; m < 32; ++m) x.view().row<float>(m)[7] *= 50;
  for (std::int64_t n = 0; n < 48; ++n) w.view().row<float>(n)[7] /= 50;
  const auto copy = [&] { return to_float_tensor(w); };
  const double plain = error_of(OutputProbe(statistics_of(x), nullptr, 0), quantized(copy(), 0));
  const double rotated = error_of(OutputProbe(statistics_of(x), nullptr, 256), quantized(copy(), 256));
  std::vector<float> s(256, 1.0f);
  s[7] = 50;
  Tensor smooth = copy();
  for (std::int64_t n = 0; n < 48; ++n) smooth.view().row<float>(n)[7] *= 50;
  const double smoothed = error_of(OutputProbe(statistics_of(x), &s, 0), quantized(std::move(smooth), 0));
  EXPECT_GE(plain, 5 * clean);
  EXPECT_LE(rotated, 3 * clean);  // 50 / sqrt(256) = 3 beside values whose largest is 3: about twice the step
  EXPECT_NEAR(smoothed, clean, 1e-3 * clean);
}

}  // namespace
}  // namespace octavo
