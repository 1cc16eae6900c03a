// Whole pictures under budgets, on the CPU: same bytes however little stays on the device. tests/gpu/residency_test.cpp is the same on a GPU.
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "octavo/error.h"
#include "pipeline/model_memory.h"
#include "pipeline/pipeline.h"

namespace octavo {
namespace {

const Request kRequest{.prompt = "three orange stars", .width = 64, .height = 48, .steps = 2, .guidance = {3.0f}, .batch = 2};

std::vector<Image> draw(Pipeline& pipeline, const Request& request) {
  Observer observer;
  return pipeline.run(pipeline.plan(request), observer, {});
}

Pipeline open(const std::filesystem::path& model, const Precision& precision, std::optional<std::int64_t> vram_bytes) {
  return Pipeline({.model = model, .precision = precision, .threads = 2, .vram_bytes = vram_bytes});
}

void expect_same(const std::vector<Image>& got, const std::vector<Image>& want, const std::string& which) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].rgb, want[i].rgb) << which << ", picture " << i;
}

TEST(Streaming, the_demo_picture_is_the_same_within_every_budget) {
  for (const Precision& precision : {precision::w8a8, precision::bf16}) {
    const auto folder = golden::demo_model();
    Pipeline whole = open(folder, precision, std::nullopt);
    const std::vector<Image> want = draw(whole, kRequest);
    EXPECT_FALSE(whole.residency(whole.plan(kRequest), 20)) << "without a budget the CPU counts nothing";

    // As the pipeline itself will count.
    const Precision plain = precision.weight.is_quantized() ? precision::f32 : precision;
    const ModelMemory memory(ModelIndex::read(folder), precision, plain, Device{});
    const ResidencyRows rows = memory.rows({.width = 64, .height = 48, .steps = 2, .text_tokens = 60});
    const std::int64_t least = smallest_budget(memory.weights(), rows),
                       most = evaluate_residency(memory.weights(), rows, {}, 1ll << 40).peak_bytes() + kMarginBytes;
    ASSERT_LT(least, most);
    int streamed_plans = 0;
    for (const int part : precision.weight.is_quantized() ? std::vector<int>{0, 1, 2, 3, 4} : std::vector<int>{0, 2}) {
      const std::int64_t budget = least + (most - least) * part / 4;
      Pipeline pipeline = open(folder, precision, budget);
      const RequestPlan plan = pipeline.plan(kRequest);
      const ResidencyPlan residency = *pipeline.residency(plan, 20);  // a short prompt
      const std::vector<Image> got = draw(pipeline, kRequest);
      expect_same(got, want, std::string(precision.name) + " in " + std::to_string(budget));
      EXPECT_EQ(pipeline.streamed_bytes() > 0, residency.choice.streams());
      streamed_plans += residency.choice.streams() ? 1 : 0;
      if (part == 0) expect_same(draw(pipeline, kRequest), want, "again");
    }
    EXPECT_GE(streamed_plans, 1);
  }
}

// C7, C8: another size between two equal requests, in a budget in which the sizes need different plans.
TEST(Streaming, equal_requests_stay_equal_when_a_larger_one_came_between) {
  const auto folder = golden::demo_model();
  Request large = kRequest;
  large.width = large.height = 192;
  large.batch = 1;
  const ModelMemory memory(ModelIndex::read(folder), precision::w8a8, precision::f32, Device{});
  const auto least = [&](const Request& request) {
    return smallest_budget(memory.weights(), memory.rows({.width = *request.width, .height = *request.height, .steps = 2, .text_tokens = 60}));
  };
  Pipeline pipeline = open(folder, precision::w8a8, least(large));
  const ResidencyChoice for_small = pipeline.residency(pipeline.plan(kRequest), 20)->choice, for_large = pipeline.residency(pipeline.plan(large), 20)->choice;
  EXPECT_NE(for_small, for_large);
  const std::vector<Image> first = draw(pipeline, kRequest);
  const std::vector<Image> other = draw(pipeline, large);
  expect_same(draw(pipeline, kRequest), first, "after a larger picture");
  Pipeline whole = open(folder, precision::w8a8, std::nullopt);
  expect_same(first, draw(whole, kRequest), "the small picture");
  expect_same(other, draw(whole, large), "the large picture");
}

TEST(Streaming, a_budget_that_is_too_small_is_refused_before_anything_is_loaded_and_leaves_a_pipeline_that_works) {
  const auto folder = golden::data_folder() / "tiny-hd64";
  const ModelMemory memory(ModelIndex::read(folder), precision::w8a8, precision::f32, Device{});
  Pipeline pipeline = open(folder, precision::w8a8, smallest_budget(memory.weights(), memory.rows({.width = 64, .height = 48, .steps = 2, .text_tokens = 60})));
  Request large = kRequest;
  large.width = large.height = 1024;
  EXPECT_THROW((void)draw(pipeline, large), OutOfMemory);
  EXPECT_EQ(draw(pipeline, kRequest).size(), 2u);
}

}  // namespace
}  // namespace octavo
