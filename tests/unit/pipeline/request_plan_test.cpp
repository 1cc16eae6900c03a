#include "pipeline/request_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "octavo/error.h"

namespace octavo {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kTokenPixels = 16;

GenerationDefaults demo_defaults() { return {.width = 256, .height = 256, .steps = 12, .guidance = {2.5f}, .mu = 0.7, .std_dev = 1.5}; }

RequestPlan plan_of(const Request& request, const GenerationDefaults& defaults = {}) { return plan_request(request, defaults, kTokenPixels); }

// The message of the InvalidArgument that planning throws; "" and a failure if it throws none.
std::string refusal(const Request& request, const GenerationDefaults& defaults = {}) {
  try {
    plan_of(request, defaults);
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line";
    return error.what();
  }
  ADD_FAILURE() << "was accepted";
  return "";
}

TEST(RequestPlan, empty_request_is_default_20_at_1024) {
  const RequestPlan plan = plan_of({});
  EXPECT_EQ(plan.request.width, 1024);
  EXPECT_EQ(plan.request.height, 1024);
  EXPECT_EQ(plan.request.steps, 20);
  EXPECT_EQ(plan.request.mu, 0.0);
  EXPECT_EQ(plan.request.std_dev, 1.75);
  EXPECT_EQ(plan.request.guidance.size(), 20u);
  EXPECT_EQ(plan.request.guidance.front(), 7.0f);
  EXPECT_EQ(plan.request.guidance.back(), 3.0f);
  EXPECT_EQ(plan.image_tokens(), 4096);
}

TEST(RequestPlan, model_defaults_stand_above_default_20) {
  const RequestPlan plan = plan_of({}, demo_defaults());
  EXPECT_EQ(plan.request.width, 256);
  EXPECT_EQ(plan.request.steps, 12);
  EXPECT_THAT(plan.request.guidance, AllOf(testing::SizeIs(12), Each(2.5f)));
  EXPECT_EQ(plan.request.mu, 0.7);
  EXPECT_EQ(plan.request.std_dev, 1.5);
}

TEST(RequestPlan, preset_stands_above_model_defaults_except_for_the_size) {
  const RequestPlan plan = plan_of({.preset = "turbo-12"}, demo_defaults());
  EXPECT_EQ(plan.request.width, 256);
  EXPECT_EQ(plan.request.guidance.front(), 7.0f);
  EXPECT_EQ(plan.request.guidance.back(), 3.0f);
  EXPECT_EQ(plan.request.mu, 0.5);
  EXPECT_EQ(plan.request.std_dev, 1.75);
}

TEST(RequestPlan, option_stands_above_preset) {
  const RequestPlan plan = plan_of({.width = 512, .preset = "turbo-12", .steps = 4, .guidance = {1.5f}, .mu = -0.25, .std_dev = 2.0}, demo_defaults());
  EXPECT_EQ(plan.request.width, 512);
  EXPECT_EQ(plan.request.height, 256);
  EXPECT_THAT(plan.request.guidance, ElementsAre(1.5f, 1.5f, 1.5f, 1.5f));
  EXPECT_EQ(plan.request.mu, -0.25);
  EXPECT_EQ(plan.request.std_dev, 2.0);
}

TEST(RequestPlan, partial_model_defaults_are_completed_from_default_20) {
  const RequestPlan plan = plan_of({}, {.steps = 4});
  EXPECT_EQ(plan.request.width, 1024);
  EXPECT_THAT(plan.request.guidance, ElementsAre(7.0f, 7.0f, 3.0f, 3.0f));
  EXPECT_EQ(plan.request.std_dev, 1.75);
}

TEST(RequestPlan, guidance_list_is_in_time_order) {
  const RequestPlan plan = plan_of({.steps = 3, .guidance = {7, 5, 3}});
  EXPECT_THAT(plan.request.guidance, ElementsAre(7.0f, 5.0f, 3.0f));
}

TEST(RequestPlan, guidance_list_of_the_wrong_length_names_both_counts) {
  EXPECT_THAT(refusal({.steps = 4, .guidance = {7, 5, 3}}), AllOf(HasSubstr("3 values"), HasSubstr("4 steps")));
}

TEST(RequestPlan, a_model_list_never_has_the_wrong_length) {
  EXPECT_THAT(plan_of({.steps = 3}, {.steps = 4, .guidance = {6, 6, 6, 2}}).request.guidance, ElementsAre(6.0f, 6.0f, 2.0f));
}

TEST(RequestPlan, off_grid_sizes_name_the_nearest) {
  EXPECT_THAT(refusal({.width = 1000}), AllOf(HasSubstr("--width 1000"), HasSubstr("multiple of 16"), HasSubstr("nearest: 992, 1008")));
  EXPECT_THAT(refusal({.height = 2047}), AllOf(HasSubstr("--height 2047"), HasSubstr("2032, 2048")));
  EXPECT_THAT(refusal({.width = 7}), HasSubstr("nearest: 16"));
  EXPECT_THAT(refusal({.width = 2050, .force = true}), HasSubstr("2048, 2064"));
}

TEST(RequestPlan, zero_negative_and_huge_sizes) {
  EXPECT_THAT(refusal({.width = 0}), AllOf(HasSubstr("--width 0"), HasSubstr("at least 16")));
  EXPECT_THAT(refusal({.height = -16}), AllOf(HasSubstr("--height -16"), HasSubstr("at least 16")));
  EXPECT_THAT(refusal({.width = 2064}), AllOf(HasSubstr("2064"), HasSubstr("2048"), HasSubstr("--force")));
  EXPECT_THAT(refusal({.width = std::numeric_limits<int>::max(), .force = true}), HasSubstr("2147483632"));
  EXPECT_EQ(plan_of({.width = 2064, .force = true}).grid_width, 129);
  EXPECT_EQ(plan_of({.width = 16, .height = 16}).image_tokens(), 1);
}

TEST(RequestPlan, an_unusual_size_is_one_advisory_line) {
  const RequestPlan plan =
      plan_of({.prompt = "{\"compositional_deconstruction\":{\"background\":\"a\",\"elements\":[]}}", .width = 128, .height = 16}, demo_defaults());
  ASSERT_EQ(plan.advisories.size(), 1u) << testing::PrintToString(plan.advisories);
  EXPECT_THAT(plan.advisories[0], AllOf(HasSubstr("128x16"), HasSubstr("256 pixels"), HasSubstr("6:1"), HasSubstr("made for 256x256")));
}

TEST(RequestPlan, a_size_that_the_model_names_is_not_unusual) {
  GenerationDefaults defaults = demo_defaults();
  defaults.sizes = {{320, 192}, {192, 320}};
  const std::string caption = "{\"compositional_deconstruction\":{\"background\":\"a\",\"elements\":[]}}";
  EXPECT_THAT(plan_of({.prompt = caption}, defaults).advisories, testing::IsEmpty());
  EXPECT_THAT(plan_of({.prompt = caption, .width = 320, .height = 192}, defaults).advisories, testing::IsEmpty());
  EXPECT_THAT(plan_of({.prompt = caption, .width = 320, .height = 320}, defaults).advisories,
              ElementsAre(AllOf(HasSubstr("320x320"), HasSubstr("made for 256x256, 320x192, 192x320"))));
}

TEST(RequestPlan, plain_text_is_one_advisory_line) {
  EXPECT_THAT(plan_of({.prompt = "a cat"}, demo_defaults()).advisories, ElementsAre(HasSubstr("plain text")));
  EXPECT_THAT(plan_of({.prompt = ""}, demo_defaults()).advisories, ElementsAre(HasSubstr("plain text")));
}

TEST(RequestPlan, a_model_without_defaults_says_what_it_falls_back_to) {
  EXPECT_THAT(plan_of({}).advisories, testing::Contains(AllOf(HasSubstr("generation_defaults"), HasSubstr("default-20"))));
  EXPECT_THAT(plan_of({.preset = "turbo-12"}).advisories, testing::Not(testing::Contains(HasSubstr("generation_defaults"))));
  EXPECT_THAT(plan_of({}, {.mu = 0.1}).advisories, testing::Not(testing::Contains(HasSubstr("generation_defaults"))));
}

TEST(RequestPlan, findings_about_a_caption_are_advisories) {
  EXPECT_THAT(plan_of({.prompt = "{}"}).advisories, testing::Contains(testing::StartsWith("caption: ")));
}

TEST(RequestPlan, steps_and_batch_below_one) {
  EXPECT_THAT(refusal({.steps = 0}), HasSubstr("--steps 0"));
  EXPECT_THAT(refusal({.steps = -5}), HasSubstr("--steps -5"));
  EXPECT_THAT(refusal({.batch = 0}), HasSubstr("--batch 0"));
}

// Refused before anything of that length is built: the schedule alone would be 16 GB.
TEST(RequestPlan, the_largest_integer_is_refused_at_once) {
  const int most = std::numeric_limits<int>::max();
  EXPECT_THAT(refusal({.steps = most}), AllOf(HasSubstr("--steps 2147483647"), HasSubstr("at most 10000")));
  EXPECT_THROW(plan_of({}, {.steps = most}), DataError);
  EXPECT_THAT(refusal({.batch = most}), AllOf(HasSubstr("--batch 2147483647"), HasSubstr("at most 10000")));
  EXPECT_EQ(plan_of({.steps = 10'000, .batch = 10'000}).schedule.times.size(), 10'000u);
}

TEST(RequestPlan, numbers_that_are_not_finite) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal({.mu = nan}), AllOf(HasSubstr("--mu nan"), HasSubstr("not a finite number")));
  EXPECT_THAT(refusal({.mu = -inf}), HasSubstr("--mu -inf"));
  EXPECT_THAT(refusal({.std_dev = inf}), HasSubstr("--std inf"));
  EXPECT_THAT(refusal({.std_dev = nan}), HasSubstr("--std nan"));
  EXPECT_THAT(refusal({.guidance = {float(nan)}}), HasSubstr("--guidance nan"));
  EXPECT_THAT(refusal({.std_dev = 0.0}), HasSubstr("greater than 0"));
  EXPECT_THAT(refusal({.std_dev = -1.0}), HasSubstr("--std -1"));
}

TEST(RequestPlan, defaults_that_no_picture_can_have_are_the_models_fault) {
  const auto blamed = [](const Request& request, GenerationDefaults defaults) -> std::string {
    defaults.source = "file 'here'";
    try {
      plan_of(request, defaults);
    } catch (const DataError& error) {
      return error.what();
    }
    ADD_FAILURE() << "was accepted";
    return "";
  };
  EXPECT_EQ(blamed({}, {.width = 17}), "file 'here': width 17 must be a multiple of 16; correct the file, or draw with --width");
  EXPECT_THAT(blamed({.width = 32}, {.height = 40'000}), HasSubstr("here': height 40000 is over the limit of 2048"));
  EXPECT_THAT(blamed({}, {.steps = 10'001}), HasSubstr("here': steps 10001"));
  EXPECT_THAT(blamed({}, {.mu = std::numeric_limits<double>::quiet_NaN()}), HasSubstr("here': mu nan"));
  EXPECT_THAT(blamed({}, {.std_dev = 0.0}), HasSubstr("here': std 0"));
  EXPECT_THAT(blamed({}, {.guidance = {2.0f, std::numeric_limits<float>::infinity()}}), HasSubstr("here': guidance inf"));
  // What somebody gave is not the model's, and a preset stands above the defaults.
  EXPECT_THAT(refusal({.width = 18}, {.width = 17}), HasSubstr("generate: --width 18"));
  EXPECT_NO_THROW(plan_of({.preset = "turbo-12"}, {.steps = 10'001, .guidance = {std::numeric_limits<float>::infinity()}, .std_dev = 0.0}));
}

TEST(RequestPlan, unknown_preset_lists_the_known) {
  EXPECT_THAT(refusal({.preset = "fast"}), AllOf(HasSubstr("'fast'"), HasSubstr("quality-48, default-20, turbo-12")));
}

TEST(RequestPlan, last_seed_of_the_batch_must_exist) {
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(plan_of({.seed = last}).request.seed, last);
  EXPECT_THAT(refusal({.seed = last, .batch = 2}), HasSubstr("18446744073709551615"));
}

TEST(RequestPlan, bad_prompt_bytes_come_with_their_offset) {
  EXPECT_THAT(refusal({.prompt = std::string("ab\0c", 4)}), AllOf(HasSubstr("NUL"), HasSubstr("byte 2")));
  EXPECT_THAT(refusal({.prompt = "abc\xff"}), AllOf(HasSubstr("invalid UTF-8"), HasSubstr("byte 3"), HasSubstr("0xff")));
  EXPECT_THAT(refusal({.prompt = "\xc0\x80"}), HasSubstr("byte 0")) << "overlong NUL";
  EXPECT_THAT(refusal({.prompt = "x\xed\xa0\x80"}), HasSubstr("byte 1")) << "surrogate";
  EXPECT_NO_THROW(plan_of({.prompt = "😀 שלום 你好"}));
}

}  // namespace
}  // namespace octavo
