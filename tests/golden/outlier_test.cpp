// The int8 formats on activations as training made them: what w2 reads in the demo model's first block. One channel holds most of a token, and a few tokens
// most of the matrix, so a scale per token is needed where a scale per tensor would lose the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "golden/golden.h"
#include "nn/activation_observer.h"
#include "nn/linear.h"
#include "pipeline/pipeline.h"
#include "quant/quantize.h"

namespace octavo {
namespace {

constexpr std::string_view kModule = "layers.0.feed_forward.w2";

// Copies the rows that one projection reads.
class Rows final : public nn::ActivationObserver {
 public:
  void on_activations(std::string_view component, std::string_view module, const TensorView& x) override {
    if (component != "transformer" || module != kModule) return;
    columns = x.columns();
    for (std::int64_t m = 0; m < x.rows(); ++m) values.insert(values.end(), x.row<float>(m), x.row<float>(m) + columns);
  }

  std::int64_t columns = 0;
  std::vector<float> values{};
};

class TrainedOutliers : public testing::Test {
 protected:
  static const Tensor& rows() {
    static const Tensor tensor = [] {
      Rows seen;
      Pipeline pipeline({.model = golden::demo_model()});
      const Request request{.prompt = "a large yellow moon in the top right and the word \"NIGHT\" in white at the bottom on a navy background",
                            .width = 256,
                            .height = 256,
                            .steps = 12,
                            .guidance = {1.0f}};
      pipeline.run(pipeline.plan(request), seen, {});
      if (seen.columns == 0) throw std::runtime_error("no projection of that name was run");
      Tensor copy(DType::f32, {std::int64_t(seen.values.size()) / seen.columns, seen.columns});
      std::copy(seen.values.begin(), seen.values.end(), copy.as<float>());
      return copy;
    }();
    return tensor;
  }
};

double largest(const float* x, std::int64_t count) {
  double result = 0;
  for (std::int64_t i = 0; i < count; ++i) result = std::max(result, std::fabs(double(x[i])));
  return result;
}

double squares(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += double(x[i]) * x[i];
  return sum;
}

// The test data is what it is taken for: Gaussian rows of this number reach 5. (This model and prompt: 213.)
TEST_F(TrainedOutliers, are_there) {
  const TensorView x = rows();
  const std::int64_t count = x.shape.elements();
  const double ratio = largest(x.as<float>(), count) / std::sqrt(squares(x.as<float>(), count) / double(count));
  std::printf("%s reads %lld rows of %lld: largest / RMS = %.0f\n", std::string(kModule).c_str(), static_cast<long long>(x.rows()),
              static_cast<long long>(x.columns()), ratio);
  EXPECT_GT(ratio, 40);
}

TEST_F(TrainedOutliers, every_value_is_within_half_a_step_of_its_code) {
  const TensorView x = rows();
  std::vector<std::int8_t> codes(std::size_t(x.columns()));
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    const float* row = x.row<float>(m);
    const float scale = quantize_row(row, x.columns(), codes.data());
    EXPECT_FLOAT_EQ(scale, float(largest(row, x.columns()) / 127));
    int most = 0;
    for (std::int64_t k = 0; k < x.columns(); ++k) {
      most = std::max(most, std::abs(int(codes[std::size_t(k)])));
      // x · (127 / a) has two roundings, so a code may flip that close to a half
      ASSERT_LE(std::fabs(double(row[k]) - double(scale) * codes[std::size_t(k)]), 0.5 * scale * (1 + 127 * 4 * 0x1p-24)) << m << ", " << k;
    }
    EXPECT_EQ(most, 127) << "the outlier keeps its value, row " << m;
  }
}

// Mean square error of rounding to multiples of step: at most step² / 12 on average where values are spread over steps, less where they round to 0.
TEST_F(TrainedOutliers, a_scale_per_token_keeps_what_a_scale_per_tensor_loses) {
  const TensorView x = rows();
  golden::CpuContext cpu;
  const WeightStore store(golden::demo_model() / "transformer", "transformer");
  const std::vector<nn::LinearPart> parts{{std::string(kModule)}};
  const nn::Linear exact(cpu, store, parts, false, precision::f32.weight);
  const nn::Linear quantised(cpu, store, parts, false, precision::w8a8.weight);

  double noise = 0;
  const double step = largest(x.as<float>(), x.shape.elements()) / 127;
  Tensor per_tensor(DType::f32, {x.rows(), x.columns()});
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    noise += double(x.columns()) * std::pow(largest(x.row<float>(m), x.columns()) / 127, 2) / 12;
    for (std::int64_t k = 0; k < x.columns(); ++k) per_tensor.view().row<float>(m)[k] = float(std::nearbyint(x.row<float>(m)[k] / step) * step);
  }
  const double predicted = std::sqrt(noise / squares(x.as<float>(), x.shape.elements()));

  const ArenaScope scope(cpu.scratch);
  Tensor y(DType::f32, {x.rows(), exact.out_features()}), y_token(DType::f32, y.shape()), y_tensor(DType::f32, y.shape());
  exact.forward(cpu, x, {}, y);
  exact.forward(cpu, per_tensor.view(), {}, y_tensor);
  quantised.forward(cpu, nn::as_projection_input(cpu, precision::w8a8, x), {}, y_token);
  // RMSNorm follows: what counts is each token's direction, so tokens weigh alike.
  const auto error = [&](const Tensor& actual) {
    double sum = 0;
    for (std::int64_t m = 0; m < x.rows(); ++m) {
      double difference = 0;
      for (std::int64_t n = 0; n < y.view().columns(); ++n) difference += std::pow(double(actual.view().row<float>(m)[n]) - y.view().row<float>(m)[n], 2);
      sum += difference / squares(y.view().row<float>(m), y.view().columns());
    }
    return std::sqrt(sum / double(x.rows()));
  };
  const double token = error(y_token), tensor = error(y_tensor);
  std::printf("relative error of a token after w2: %.4f with a scale per token (inputs' own rounding, all tokens together: %.4f), %.4f with one per tensor\n",
              token, predicted, tensor);
  EXPECT_LT(token, 0.05);
  EXPECT_GT(tensor, 4 * token);
}

}  // namespace
}  // namespace octavo
