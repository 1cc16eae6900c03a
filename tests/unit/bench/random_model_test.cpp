// A model's folder without a model: the sizes that the specification gives, and configurations that the networks themselves accept.
#include "models/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>

#include "convert/quantize.h"
#include "golden/golden.h"
#include "golden/random_model.h"
#include "golden/temporary_model.h"
#include "io/safetensors.h"
#include "models/flux2_vae/vae.h"
#include "models/ideogram4/dit.h"
#include "models/qwen3_vl/text_encoder.h"
#include "nn/linear.h"
#include "octavo/error.h"
#include "ops/random_fill/random_fill.h"
#include "pipeline/inventory.h"
#include "pipeline/pipeline.h"
#include "pipeline/pixels.h"
#include "weights/weight_store.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

std::int64_t parameters_of(const std::filesystem::path& folder) {
  std::int64_t sum = 0;
  const SafetensorsFile file(folder / golden::kDiffusersFile);  // its entries live as long as it
  for (const SafetensorsEntry& entry : file.entries()) sum += entry.shape.elements();
  return sum;
}

std::int64_t disk_bytes(const std::filesystem::path& folder) {
  std::int64_t sum = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder)) {
    struct stat status{};
    if (item.is_regular_file() && ::stat(item.path().c_str(), &status) == 0) sum += std::int64_t(status.st_blocks) * 512;
  }
  return sum;
}

// spec sections 1 and 9.1. The text tower has 36 layers; its table is cut to 1 024 rows and the final norm, which nobody reads, is left out.
TEST(RandomModel, full_size_has_the_published_numbers_of_parameters) {
  const golden::TemporaryFolder temporary;
  models::write_random_model(temporary.path(), "ideogram4");
  EXPECT_EQ(parameters_of(temporary.path() / "transformer"), 9279288448);
  EXPECT_EQ(parameters_of(temporary.path() / "unconditional_transformer"), 9279288448 - 53248 - 4608 * 53249LL);
  EXPECT_EQ(parameters_of(temporary.path() / "text_encoder"), 7568405504 - (151936 - 1024) * 4096LL - 4096);
  EXPECT_EQ(parameters_of(temporary.path() / "vae"), 84046372 - 1);  // num_batches_tracked
  EXPECT_LT(disk_bytes(temporary.path()), 300 << 20) << "matrices must be holes";
  const WeightStore store(temporary.path() / "transformer", "transformer");
  EXPECT_TRUE(store.is_random());
  EXPECT_FALSE(store.has_int8());
  EXPECT_EQ(to_float(store.get("layers.5.ffn_norm2.weight").as<bf16>()[17]), 1.0f);
  EXPECT_EQ(models::random_model_taps("ideogram4"), (std::vector<int>{0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 35}));
}

TEST(RandomModel, the_networks_accept_the_small_one) {
  const golden::TemporaryFolder temporary;
  models::write_random_model(temporary.path(), "ideogram4-tiny");
  golden::CpuContext cpu;
  cpu.ctx.draws_weights = true;
  const std::vector<int> taps = models::random_model_taps("ideogram4-tiny");
  const qwen3_vl::TextEncoder encoder(cpu, temporary.path() / "text_encoder", taps, precision::f32);
  const ideogram4::Dit dit(cpu, temporary.path() / "transformer", "transformer", precision::f32);
  const ideogram4::Dit other(cpu, temporary.path() / "unconditional_transformer", "unconditional_transformer", precision::f32);
  EXPECT_EQ(encoder.feature_columns(), dit.config().llm_features);
  EXPECT_EQ(dit.config().hidden(), other.config().hidden());
  const flux2_vae::Vae vae(cpu, temporary.path() / "vae", precision::f32);
  EXPECT_EQ(vae.config().token_channels(), dit.config().in_channels);
  EXPECT_EQ(vae.config().scale() * vae.config().patch, 16);
  const std::vector<std::int32_t> ids{1, 2, 3};
  const Tensor features = encoder.encode(cpu, ids);
  const std::vector<float> times{0.5f};
  const auto session = dit.prepare(cpu, 2, 2, features.view(), times);
  const Tensor latents = golden::random_rows({4, 128}, 1), velocity(DType::f32, {4, 128});
  dit.forward(cpu, *session, 0, latents, velocity);
  EXPECT_TRUE(all_finite(velocity));
}

// A hole reads as zeros: a picture or an int8 file made of them would look like a broken model.
TEST(RandomModel, only_a_bench_may_use_it) {
  const models::TemporaryRandomModel model("ideogram4-tiny");
  const auto expect_refused = [&](const std::string& who, const auto& body) {
    try {
      body();
      ADD_FAILURE() << who;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(who + ": its matrices are holes that stand for random numbers (octavo.random_weights in the file's metadata)"));
      EXPECT_THAT(error.what(), HasSubstr("give a real model"));
    }
  };
  Observer observer;
  expect_refused("text_encoder", [&] {
    Pipeline pipeline({.model = model.path(), .threads = 1});
    (void)pipeline.run(pipeline.plan({.prompt = "a star", .width = 64, .height = 64, .steps = 1}), observer, {});
  });
  golden::CpuContext cpu;
  expect_refused("transformer", [&] { const ideogram4::Dit dit(cpu, model.path() / "transformer", "transformer", precision::w8a8); });
  ThreadPool pool(1);
  const golden::TemporaryFolder out;
  expect_refused("quantize", [&] { (void)quantize_checkpoint(model.path() / "transformer", out.path() / "out.safetensors", {}, pool, observer); });
  EXPECT_FALSE(std::filesystem::exists(out.path() / "out.safetensors"));
  EXPECT_THAT(list_component(model.path() / "transformer", "transformer", precision::f32).remarks, ::testing::Contains(HasSubstr("random numbers")));
}

// The numbers that a GPU draws: gpu.bench_model holds it to the same of random_fill.
TEST(RandomModel, drawn_weights_have_the_right_spread_and_differ) {
  const models::TemporaryRandomModel model("ideogram4-tiny");
  const WeightStore store(model.path() / "transformer", "transformer");
  golden::CpuContext cpu;
  cpu.ctx.draws_weights = true;
  for (const Precision& recipe : {precision::bf16, precision::w8a8}) {
    const nn::Linear linear(cpu, store, {{"layers.0.feed_forward.w1"}}, false, nn::LinearUse(recipe));
    const nn::Linear again(cpu, store, {{"layers.0.feed_forward.w1"}}, false, nn::LinearUse(recipe));
    const nn::Linear other(cpu, store, {{"layers.1.feed_forward.w1"}}, false, nn::LinearUse(recipe));
    const TensorView weight = linear.parts()[0].weight;
    EXPECT_EQ(weight.dtype, recipe.weight.storage);
    EXPECT_EQ(std::memcmp(weight.data, again.parts()[0].weight.data, weight.bytes()), 0);
    EXPECT_NE(std::memcmp(weight.data, other.parts()[0].weight.data, weight.bytes()), 0);
    const Tensor x = golden::random_rows({64, 512}, 5), y(DType::f32, {64, 1024});
    linear.forward(cpu, x.view(), {}, y);
    double squares = 0, x_squares = 0;
    for (std::int64_t i = 0; i < y.shape().elements(); ++i) squares += double(y.as<float>()[i]) * double(y.as<float>()[i]);
    for (std::int64_t i = 0; i < x.shape().elements(); ++i) x_squares += double(x.as<float>()[i]) * double(x.as<float>()[i]);
    EXPECT_NEAR(std::sqrt(squares / double(y.shape().elements()) / (x_squares / double(x.shape().elements()))), 1, 0.03) << recipe.name;
  }
}

TEST(RandomModel, another_name) {
  const golden::TemporaryFolder temporary;
  try {
    models::write_random_model(temporary.path() / "x", "ideogram5");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("'ideogram5'"));
    EXPECT_THAT(error.what(), HasSubstr("ideogram4, ideogram4-tiny"));
  }
  EXPECT_FALSE(std::filesystem::exists(temporary.path() / "x"));
}

// The sum of four uniform numbers: variance 1, kurtosis 3 - 6/20 = 2.7, never beyond 2 sqrt(3). 2^20 draws: standard errors 0.001, 0.0013, 0.004.
TEST(RandomFill, is_near_normal) {
  constexpr std::int64_t kCount = 1 << 20;
  const Tensor tensor(DType::f32, {kCount});
  ExecContext cpu;
  random_fill(cpu, tensor, 0.5f, 3);
  double sum = 0, squares = 0, fourths = 0, largest = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double g = double(tensor.as<float>()[i]) / 0.5;
    sum += g;
    squares += g * g;
    fourths += g * g * g * g;
    largest = std::max(largest, std::fabs(g));
  }
  EXPECT_NEAR(sum / kCount, 0, 0.006);
  EXPECT_NEAR(squares / kCount, 1, 0.008);
  EXPECT_NEAR(fourths / kCount, 2.7, 0.03);
  EXPECT_LE(largest, 2 * std::sqrt(3.0) + 1e-5);
}

TEST(RandomFill, types_seeds_and_codes) {
  const Tensor floats(DType::f32, {3, 500}), rounded(DType::bf16, {3, 500}), codes(DType::s8, {3, 500}), other(DType::f32, {3, 500});
  ExecContext cpu;
  random_fill(cpu, floats, 1, 9);
  random_fill(cpu, rounded, 1, 9);
  random_fill(cpu, codes, 99, 9);
  random_fill(cpu, other, 1, 10);
  int equal = 0, least = 0, most = 0;
  for (std::int64_t i = 0; i < 1500; ++i) {
    EXPECT_EQ(rounded.as<bf16>()[i].bits, to_bf16(floats.as<float>()[i]).bits);
    EXPECT_NEAR(codes.as<std::int8_t>()[i], kRandomCodeSigma * floats.as<float>()[i], 0.5001);
    least = std::min<int>(least, codes.as<std::int8_t>()[i]);
    most = std::max<int>(most, codes.as<std::int8_t>()[i]);
    equal += floats.as<float>()[i] == other.as<float>()[i] ? 1 : 0;
  }
  EXPECT_LT(equal, 5);
  EXPECT_LT(least, -80);
  EXPECT_GT(most, 80);
  EXPECT_THROW(random_fill(cpu, floats.view().column_range(1, 7), 1, 9), InvalidArgument);
  EXPECT_THROW(random_fill(cpu, Tensor(DType::s32, {4}), 1, 9), InvalidArgument);
}

}  // namespace
}  // namespace octavo
