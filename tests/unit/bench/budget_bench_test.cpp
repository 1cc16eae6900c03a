// 'octavo bench model --vram' on the CPU, which streams as a GPU would, and what its report says of runs that went wrong.
#include "pipeline/budget_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/budget_report.h"
#include "models/random_model.h"
#include "octavo/error.h"
#include "pipeline/model_memory.h"
#include "text/tokenizer.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kText = 40, kSize = 64, kSteps = 3;

TEST(BudgetBench, same_picture_within_every_budget_and_no_more_memory_than_was_allowed) {
  for (const Precision& precision : {precision::w8a8, precision::bf16}) {
    SCOPED_TRACE(std::string(precision.name));
    const models::TemporaryRandomModel model("ideogram4-tiny");
    const ModelMemory memory(ModelIndex::read(model.path()), precision, precision.weight.is_quantized() ? precision::f32 : precision, Device{});
    const ResidencyRows rows = memory.rows({.width = kSize, .height = kSize, .steps = kSteps, .text_tokens = kText});
    const std::int64_t least = smallest_budget(memory.weights(), rows);
    const std::int64_t most = evaluate_residency(memory.weights(), rows, {}, 1ll << 40).peak_bytes() + kMarginBytes;
    const BudgetReport report = bench_budgets(
        {.model = "ideogram4-tiny", .budgets = {most, least}, .size = kSize, .text = kText, .steps = kSteps, .precision = precision, .device = {}});
    EXPECT_THAT(problems_of(report), IsEmpty()) << budget_text(report);
    ASSERT_EQ(report.runs.size(), 3u);
    for (const BudgetRun& run : report.runs) {
      EXPECT_EQ(run.picture, report.runs[0].picture);
      EXPECT_GT(run.colors, kSize) << "a picture of random weights is noise";
      EXPECT_GT(run.step.median, 0);
      std::vector<std::string> names;
      for (const PhaseRun& phase : run.phases) names.push_back(phase.name);
      EXPECT_THAT(names, ElementsAre("load", "encode", "prepare", "denoise", "decode"));
    }
    EXPECT_FALSE(report.runs[0].plan);
    EXPECT_EQ(report.runs[1].copied_bytes_of_step, 0);
    EXPECT_TRUE(report.runs[2].plan->choice.streams());
    EXPECT_GT(report.runs[2].copied_bytes_of_step, 0);
    EXPECT_LE(report.runs[2].copied_bytes_of_step, report.runs[2].plan->streamed_bytes) << "of three streamed layers, the one alone in its place stays there";
    EXPECT_EQ(report.runs[2].phases[3].planned_bytes, report.runs[2].plan->phases[2].bytes());
  }
}

TEST(BudgetBench, says_what_must_not_be) {
  BudgetReport report{.model = "m", .precision = "w8a8", .gpu = "g", .size = 1024};
  report.runs.push_back({.phases = {{.name = "denoise", .peak_bytes = 30'000'000'000}}, .step = {0.1, 0.1, 0.1}, .picture = "aa", .colors = 9});
  report.runs.push_back({.budget_bytes = 12'000'000'000,
                         .phases = {{.name = "denoise", .peak_bytes = 11'000'000'000}, {.name = "decode", .peak_bytes = 12'000'000'001}},
                         .step = {0.25, 0.2, 0.3},
                         .picture = "aa",
                         .colors = 9});
  report.runs.push_back({.budget_bytes = 8'000'000'000, .phases = {{.name = "decode", .peak_bytes = 7}}, .picture = "bb", .colors = 1, .equals_first = false});
  const std::vector<std::string> problems = problems_of(report);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_THAT(problems[0], HasSubstr("--vram 12.0GB: 12000000001 bytes were in use in 'decode', 12000000000 are allowed"));
  EXPECT_THAT(problems[1], HasSubstr("--vram 8.0GB: the picture bb differs from aa"));
  EXPECT_THAT(problems[2], HasSubstr("one colour"));
  EXPECT_THAT(budget_text(report), HasSubstr("DIFFERENT"));
  EXPECT_THAT(budget_text(report), HasSubstr("2.50x"));
  const Json json = budget_json(report);
  EXPECT_TRUE(json.at("runs")[0].at("budget_bytes").is_null());
  EXPECT_EQ(json.at("runs")[1].at("peak_bytes"), 12'000'000'001);
  EXPECT_EQ(json.at("runs")[1].at("slowdown"), 2.5);
  EXPECT_EQ(json.at("problems").size(), 3u);
}

TEST(BudgetBench, colors) {
  EXPECT_EQ(count_colors({}), 0);
  EXPECT_EQ(count_colors({1, 2, 3, 1, 2, 3}), 1);
  EXPECT_EQ(count_colors({1, 2, 3, 3, 2, 1, 1, 2, 3, 1, 2, 4}), 3);
}

TEST(BudgetBench, a_prompt_of_so_many_tokens) {
  const models::TemporaryRandomModel model("ideogram4-tiny");
  const Tokenizer tokenizer(model.path() / "tokenizer");
  EXPECT_EQ(tokenizer.encode(chat_prompt(models::random_model_prompt(256))).size(), 256u);
  EXPECT_LE(tokenizer.vocabulary_size(), 1024) << "the text encoder's table has no more rows";
  EXPECT_EQ(models::random_model_prompt(19), "");
  try {
    (void)models::random_model_prompt(18);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("18 text tokens are too few; the chat template alone has 19"));
  }
}

}  // namespace
}  // namespace octavo
