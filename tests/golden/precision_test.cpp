// What w8a8 and bf16 cost, on the golden pipelines: each block projection alone, then the velocity of a whole forward pass and of guidance.
#include <fmt/format.h>

#include "golden/golden.h"
#include "golden/random_model.h"
#include "models/ideogram4/dit.h"
#include "models/ideogram4/params.h"
#include "nn/linear.h"
#include "nn/rows.h"

namespace octavo::ideogram4 {
namespace {

using golden::CpuContext;
using golden::Reference;

const std::vector<float> kTimes{0.0f, 0.37f, 1.0f};
constexpr float kGuidance = 7.0f;

Tensor guided(const Tensor& c, const Tensor& u) {
  Tensor v(DType::f32, c.shape());
  for (std::int64_t k = 0; k < v.shape().elements(); ++k) v.as<float>()[k] = kGuidance * c.as<float>()[k] + (1 - kGuidance) * u.as<float>()[k];
  return v;
}

class PrecisionGolden : public ::testing::TestWithParam<std::string> {
 protected:
  Reference reference{GetParam()};

  std::vector<Tensor> velocities(CpuContext& cpu, bool conditional, const Precision& precision, const std::vector<float>& times = kTimes) const {
    const std::string component = conditional ? "transformer" : "unconditional_transformer";
    const Dit dit(cpu, reference.folder / component, component, precision);
    const Tensor features = reference.features();
    const auto session = dit.prepare(cpu, 6, 4, conditional ? std::optional<TensorView>(features) : std::nullopt, times);
    const Tensor noise = reference.noise();
    std::vector<Tensor> result;
    for (int step = 0; step < int(times.size()); ++step) {
      result.emplace_back(DType::f32, noise.shape());
      dit.forward(cpu, *session, step, noise, result.back());
    }
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(Reference, PrecisionGolden, ::testing::ValuesIn(golden::reference_names()), golden::test_name);

// Mean square of the rounding error of symmetric 8-bit codes, as a share of the mean square of the numbers: Σ (step²/12) / Σ x², step = absmax/127.
double quantisation_noise(const Tensor& rows) {
  double noise = 0, signal = 0;
  for (std::int64_t m = 0; m < rows.shape()[0]; ++m) {
    double absmax = 0, square = 0;
    for (std::int64_t k = 0; k < rows.shape()[1]; ++k) {
      const double x = rows.view().row<float>(m)[k];
      absmax = std::max(absmax, std::fabs(x));
      square += x * x;
    }
    noise += double(rows.shape()[1]) * (absmax / 127) * (absmax / 127) / 12;
    signal += square;
  }
  return noise / signal;
}

Tensor weight_rows(const nn::Linear& linear) {
  Tensor all(DType::f32, {linear.out_features(), linear.in_features()});
  float* to = all.as<float>();
  for (const LinearWeights& part : linear.parts()) {
    load_as_float(part.weight.data, part.weight.dtype, part.weight.shape.elements(), to);
    to += part.weight.shape.elements();
  }
  return all;
}

// Rounding errors of weights and activations are independent, so the squares of their relative errors add. 1.3 is slack for the sample:
// the error is a mean over thousands of outputs, and its estimate from uniform rounding is good to a few percent.
TEST_P(PrecisionGolden, w8a8_error_of_every_block_linear) {
  CpuContext cpu;
  for (const std::string component : {"transformer", "unconditional_transformer"}) {
    const WeightStore store(reference.folder / component, component);
    const Config config = Config::read(reference.folder / component);
    const Names names = Names::find(store);
    for (int l = 0; l < config.layers; ++l) {
      const std::vector<std::pair<std::string, std::vector<nn::LinearPart>>> linears{
          {"qkv", names.qkv(config, l)},
          {"o", {{names.attention_output(l)}}},
          {"w1+w3", {{names.layer(l, "feed_forward.w1")}, {names.layer(l, "feed_forward.w3")}}},
          {"w2", {{names.layer(l, "feed_forward.w2")}}}};
      for (const auto& [label, parts] : linears) {
        const ArenaScope scope(cpu.scratch);
        const nn::Linear exact(cpu, store, parts, false, precision::f32.weight);
        const nn::Linear quantised(cpu, store, parts, false, precision::w8a8.weight);
        const Tensor x = golden::random_rows({64, exact.in_features()}, 7);
        const Tensor y_exact(DType::f32, {64, exact.out_features()}), y_quantised(DType::f32, {64, exact.out_features()});
        exact.forward(cpu, x.view(), {}, y_exact);
        quantised.forward(cpu, nn::as_projection_input(cpu, precision::w8a8, x), {}, y_quantised);
        const double error = golden::relative_l2(y_quantised, y_exact);
        const double expected = std::sqrt(quantisation_noise(x) + quantisation_noise(weight_rows(exact)));
        std::printf("%-11s %-25s layers.%d.%-6s w8a8 relative L2 %.2e (predicted %.2e)\n", GetParam().c_str(), component.c_str(), l, label.c_str(), error,
                    expected);
        EXPECT_LE(error, 1.3 * expected);
        EXPECT_GE(error, 0.5 * expected);  // it was quantised at all
      }
    }
  }
}

// v = g v_c + (1 - g) v_u, g = 7. Independent errors of the branches grow by √(7² + 6²) = 9.2 (spec section 3.6). A trained pair of branches nearly
// agrees, so v stays as large as one of them; these random ones are independent, so v grows by 9.2 too and the relative error stays what it was.
//   w8a8: four sub-blocks, each up to two projections in a row and a product of two, each 1 % wrong by the test above: √(4 · 3) · 1 % = 3.5 %
//         if every sub-block's error reached the output undamped.
//   bf16: about twenty roundings on the way, 2^-9/√3 = 0.11 % each: 0.5 %; three times that as the bound.
//   fp16: at most as many, 2^-12/√3 each: an eighth.
// bf16 also rounds t, which is another input rather than an error: it is judged against float32 at the rounded t.
TEST_P(PrecisionGolden, velocity_error_of_each_precision_before_and_after_guidance) {
  CpuContext cpu;
  for (const Precision& precision : {precision::w8a8, precision::bf16, precision::fp16}) {
    const bool is_bf16 = precision.residual == DType::bf16;
    std::vector<float> seen_times = kTimes;
    if (is_bf16) std::transform(kTimes.begin(), kTimes.end(), seen_times.begin(), [](float t) { return to_float(to_bf16(t)); });
    const std::vector<Tensor> cond = velocities(cpu, true, precision::f32, seen_times), uncond = velocities(cpu, false, precision::f32, seen_times);
    const std::vector<Tensor> cond_low = velocities(cpu, true, precision), uncond_low = velocities(cpu, false, precision);
    for (std::size_t i = 0; i < kTimes.size(); ++i) {
      const double c = golden::relative_l2(cond_low[i], cond[i]), u = golden::relative_l2(uncond_low[i], uncond[i]);
      const double after = golden::relative_l2(guided(cond_low[i], uncond_low[i]), guided(cond[i], uncond[i]));
      std::printf("%-11s %-5s t = %.2f: velocity relative L2 cond %.2e, uncond %.2e, guided (g = 7) %.2e\n", GetParam().c_str(),
                  std::string(precision.name).c_str(), double(kTimes[i]), c, u, after);
      const double bound = is_bf16 ? 0.015 : precision.rows == DType::f16 ? 0.015 / 8 : 0.035;
      EXPECT_LE(std::max({c, u, after}), bound);
      EXPECT_GT(std::min({c, u, after}), precision.rows == DType::f16 ? 1e-5 : 1e-4);  // it did compute in that precision
    }
  }
}

// numerics.md section 12. Codes of a row of D Gaussian numbers are wrong by absmax / (127 √12) = 0.7 % of its length, so a score by √2 · 0.7 % · |q| |k| / √D,
// which with q and k of RMS 1 and scale 1/√D is 1 % of e-fold: every weight by 1 % of itself, and with independent errors the result too. Two layers: 1.5 %
// undamped; in w8a8 beside the 3.5 % above.
TEST_P(PrecisionGolden, velocity_error_of_int8_attention_before_and_after_guidance) {
  CpuContext cpu;
  const std::vector<Tensor> cond = velocities(cpu, true, precision::f32), uncond = velocities(cpu, false, precision::f32);
  for (const Precision& precision : {precision::f32, precision::w8a8}) {
    cpu.ctx.attention = AttentionKind::int8;
    const std::vector<Tensor> cond_low = velocities(cpu, true, precision), uncond_low = velocities(cpu, false, precision);
    cpu.ctx.attention = AttentionKind::automatic;
    for (std::size_t i = 0; i < kTimes.size(); ++i) {
      const double c = golden::relative_l2(cond_low[i], cond[i]), u = golden::relative_l2(uncond_low[i], uncond[i]);
      const double after = golden::relative_l2(guided(cond_low[i], uncond_low[i]), guided(cond[i], uncond[i]));
      std::printf("%-11s %-5s int8 attention t = %.2f: velocity relative L2 cond %.2e, uncond %.2e, guided (g = 7) %.2e\n", GetParam().c_str(),
                  std::string(precision.name).c_str(), double(kTimes[i]), c, u, after);
      EXPECT_LE(std::max({c, u, after}), precision.weight.is_quantized() ? 0.038 : 0.015);
      EXPECT_GT(std::min({c, u, after}), 1e-5);  // it did run
    }
  }
}

// numerics.md section 10. 0.37 in bf16 is 0.3691, and 1e4 · 0.0009 = 9 rad in the fastest sinusoid: far more than any rounding elsewhere.
TEST_P(PrecisionGolden, only_bf16_rounds_the_model_time) {
  CpuContext cpu;
  const std::vector<float> exact{0.37f}, rounded{to_float(to_bf16(0.37f))};
  ASSERT_NE(exact, rounded);
  for (const Precision& precision : precision::all) {
    const double moved = golden::relative_l2(velocities(cpu, true, precision, exact)[0], velocities(cpu, true, precision, rounded)[0]);
    if (precision.residual == DType::bf16) {
      EXPECT_EQ(moved, 0.0);
    } else {
      EXPECT_GT(moved, 0.1) << precision.name;
    }
  }
}

}  // namespace
}  // namespace octavo::ideogram4
