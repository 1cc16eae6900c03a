// The whole way against the reference implementation: the two tiny pipelines and the demo model. tests/golden/data/README.md
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/safetensors.h"
#include "pipeline/pipeline.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

const fs::path kData = fs::path(OCTAVO_SOURCE_DIR) / "tests" / "golden" / "data";

class GoldenPipeline : public testing::TestWithParam<const char*> {
 protected:
  fs::path folder_ = kData / GetParam();
  fs::path dump_ = fs::path(testing::TempDir()) / ("octavo_golden_" + std::string(GetParam()) + "_" + std::to_string(::getpid()) + ".safetensors");
  Json expected_ = read_json(folder_ / "expected.json");
  SafetensorsFile tensors_{folder_ / "expected.safetensors"};
  Observer observer_;

  void TearDown() override { fs::remove(dump_); }

  // The reference's settings: base schedule mu 0, std 1.5.
  Request request() const {
    Request request{.prompt = expected_.at("prompts")[0].get<std::string>(),
                    .width = expected_.at("width").get<int>(),
                    .height = expected_.at("height").get<int>(),
                    .steps = expected_.at("steps").get<int>(),
                    .guidance = expected_.at("guidance").get<std::vector<float>>(),
                    .mu = 0.0,
                    .std_dev = 1.5,
                    .noise = NoiseSource{(folder_ / "expected.safetensors").string(), "noise"}};
    return request;
  }
};

double max_difference(const float* a, const float* b, std::int64_t count) {
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double difference = std::abs(double(a[i]) - double(b[i]));
    if (!(difference <= largest)) largest = difference;  // a NaN stays
  }
  return largest;
}

// A2: 1e-4 in the latents after every step, 4e-3 in the picture (about one step of 8 bits).
TEST_P(GoldenPipeline, latents_after_every_step_and_picture) {
  Pipeline pipeline({.model = folder_});
  Request wanted = request();
  wanted.dump_path = dump_.string();
  const std::vector<Image> images = pipeline.run(pipeline.plan(wanted), observer_, {});
  const SafetensorsFile dump(dump_);

  const TensorView tokens = dump.tensor("tokens");
  const TensorView expected_tokens = tensors_.tensor("tokens.0");
  ASSERT_EQ(tokens.shape, expected_tokens.shape);
  for (std::int64_t i = 0; i < tokens.shape[0]; ++i) EXPECT_EQ(tokens.as<std::int32_t>()[i], expected_tokens.as<std::int32_t>()[i]);

  // The reference left-pads the features to max_text_tokens with zeros.
  const TensorView features = dump.tensor("text_features");
  const TensorView padded = tensors_.tensor("text_features");
  ASSERT_EQ(features.columns(), padded.columns());
  const float* real_rows = padded.as<float>() + (padded.rows() - features.rows()) * features.columns();
  double error = 0, norm = 0;
  for (std::int64_t i = 0; i < features.shape.elements(); ++i) {
    error += std::pow(double(features.as<float>()[i]) - real_rows[i], 2);
    norm += std::pow(double(real_rows[i]), 2);
  }
  EXPECT_LE(std::sqrt(error / norm), 1e-5);

  const TensorView sigmas = dump.tensor("sigmas");
  const TensorView expected_sigmas = tensors_.tensor("sigmas");
  ASSERT_EQ(sigmas.shape, expected_sigmas.shape);
  EXPECT_LE(max_difference(sigmas.as<float>(), expected_sigmas.as<float>(), sigmas.shape[0]), 1e-6);

  const TensorView latents = dump.tensor("latents_per_step");
  const TensorView expected_latents = tensors_.tensor("latents_per_step");
  ASSERT_EQ(latents.shape, expected_latents.shape);
  const std::int64_t per_step = latents.shape.elements() / latents.shape[0];
  for (std::int64_t step = 0; step < latents.shape[0]; ++step) {
    EXPECT_LE(max_difference(latents.as<float>() + step * per_step, expected_latents.as<float>() + step * per_step, per_step), 1e-4) << "step " << step + 1;
  }

  const TensorView image = dump.tensor("image");
  const TensorView expected_image = tensors_.tensor("image");
  ASSERT_EQ(image.shape, expected_image.shape);
  EXPECT_LE(max_difference(image.as<float>(), expected_image.as<float>(), image.shape.elements()), 4e-3);

  ASSERT_EQ(images.size(), 1u);
  const Image& drawn = images[0];
  ASSERT_EQ(drawn.rgb.size(), std::size_t(image.shape.elements()));
  for (std::size_t i = 0; i < drawn.rgb.size(); ++i) ASSERT_NEAR(drawn.rgb[i], 255 * image.as<float>()[i], 0.5001) << i;
}

// The dump holds raw network outputs: recombining them by hand gives the dumped latents.  z' = z + (sigma - sigma') (g v_c + (1 - g) v_u)
TEST_P(GoldenPipeline, dump_repeats_the_euler_steps) {
  Pipeline pipeline({.model = folder_});
  Request wanted = request();
  wanted.dump_path = dump_.string();
  wanted.guidance[1] = 1.0f;  // its unconditional velocity is dumped although the picture does not need it
  pipeline.run(pipeline.plan(wanted), observer_, {});
  const SafetensorsFile dump(dump_);
  const TensorView latents = dump.tensor("latents_per_step");
  const std::int64_t count = latents.shape.elements() / latents.shape[0];
  std::vector<double> z(tensors_.tensor("noise").as<float>(), tensors_.tensor("noise").as<float>() + count);
  const float* sigmas = dump.tensor("sigmas").as<float>();
  for (std::int64_t step = 0; step < latents.shape[0]; ++step) {
    const float* v_cond = dump.tensor("velocity_cond").as<float>() + step * count;
    const float* v_uncond = dump.tensor("velocity_uncond").as<float>() + step * count;
    EXPECT_GT(max_difference(v_cond, v_uncond, count), 1e-3) << "two networks, two answers";
    const double g = wanted.guidance[std::size_t(step)];
    double largest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      z[std::size_t(i)] += (double(sigmas[step]) - sigmas[step + 1]) * (g * v_cond[i] + (1 - g) * v_uncond[i]);
      largest = std::max(largest, std::abs(z[std::size_t(i)] - latents.as<float>()[step * count + i]));
    }
    // four float32 roundings a step of numbers below 64 (7 |v_c| + 6 |v_u|), at most 6 steps
    EXPECT_LE(largest, 6 * 4 * 64 * 0x1p-24) << "step " << step + 1;
  }
}

TEST_P(GoldenPipeline, every_prompt_has_the_reference_tokens) {
  Pipeline pipeline({.model = folder_});
  const Json& prompts = expected_.at("prompts");
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Request wanted{.prompt = prompts[i].get<std::string>(), .width = 16, .height = 16, .steps = 1, .guidance = {1.0f}, .dump_path = dump_.string()};
    pipeline.run(pipeline.plan(wanted), observer_, {});
    const SafetensorsFile dump(dump_);
    const TensorView tokens = dump.tensor("tokens");
    const TensorView expected = tensors_.tensor("tokens." + std::to_string(i));
    ASSERT_EQ(tokens.shape, expected.shape) << prompts[i];
    EXPECT_TRUE(std::equal(tokens.as<std::int32_t>(), tokens.as<std::int32_t>() + tokens.shape[0], expected.as<std::int32_t>())) << prompts[i];
  }
}

// The demo model as the reference drew it: trained weights, a picture that people can look at (tests/golden/data/demo/demo-expected.png).
TEST(GoldenDemo, draws_what_the_reference_drew) {
  const Json expected = read_json(kData / "demo" / "demo-expected.json");
  const fs::path file = kData / "demo" / "demo-expected.safetensors";
  const SafetensorsFile tensors(file);
  const fs::path dump_path = fs::path(testing::TempDir()) / ("octavo_golden_demo_" + std::to_string(::getpid()) + ".safetensors");
  Observer observer;
  Pipeline pipeline({.model = fs::path(OCTAVO_SOURCE_DIR) / "models" / "demo"});
  for (std::size_t i = 0; i < expected.at("prompts").size(); ++i) {  // a sentence and a JSON caption
    const std::string name = std::to_string(i);
    const Request request{.prompt = expected.at("prompts")[i].get<std::string>(),
                          .width = expected.at("width").get<int>(),
                          .height = expected.at("height").get<int>(),
                          .steps = expected.at("steps").get<int>(),
                          .guidance = {expected.at("guidance").get<float>()},
                          .mu = expected.at("mu").get<double>(),
                          .std_dev = expected.at("std").get<double>(),
                          .noise = NoiseSource{file.string(), "noise." + name},
                          .dump_path = dump_path.string()};
    const Image image = pipeline.run(pipeline.plan(request), observer, {}).front();
    const SafetensorsFile dump(dump_path);
    const TensorView latents = dump.tensor("latents_per_step");
    const TensorView expected_latents = tensors.tensor("latents." + name);
    const std::int64_t count = expected_latents.shape.elements();
    const float* last = latents.as<float>() + latents.shape.elements() - count;
    EXPECT_LE(max_difference(last, expected_latents.as<float>(), count), 2e-3) << "prompt " << i;

    const TensorView pixels = tensors.tensor("image." + name);
    ASSERT_EQ(std::size_t(pixels.shape.elements()), image.rgb.size());
    int largest = 0;
    for (std::size_t k = 0; k < image.rgb.size(); ++k) largest = std::max(largest, std::abs(int(image.rgb[k]) - int(pixels.as<std::uint8_t>()[k])));
    EXPECT_LE(largest, 1) << "prompt " << i;  // a value beside a half may round the other way
  }
  fs::remove(dump_path);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, GoldenPipeline, testing::Values("tiny-hd64", "tiny-hd256"),
                         [](const auto& parameter) { return std::string(parameter.param).substr(5); });

}  // namespace
}  // namespace octavo
