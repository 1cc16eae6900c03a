#include "pipeline/model_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "octavo/error.h"

namespace octavo {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelMemory demo() { return {ModelIndex::read(golden::demo_model()), precision::on_gpu(precision::w8a8), precision::bf16, Device{Device::Kind::cuda, 0}}; }

constexpr PictureMemory kPicture{.width = 256, .height = 256, .steps = 12, .text_tokens = 60};

TEST(ModelMemory, every_part_of_the_demo_model_is_there) {
  const ResidencyWeights weights = demo().weights();
  EXPECT_EQ(weights.text_layers.size(), 4u);
  EXPECT_EQ(weights.cond.layers.size(), 7u);
  // One byte per weight of the seven matrices and four per row: 7 layers of 384 x (4 x 384 + 3 x 640).
  const std::int64_t layer = 384 * (4 * 384 + 3 * 640) + 4 * (4 * 384 + 2 * 640 + 384);
  for (const std::int64_t bytes : weights.cond.layers) {
    EXPECT_GE(bytes, layer);
    EXPECT_LE(bytes, layer + 8 * 512);
  }
  for (const std::int64_t bytes : {weights.cond.conditioning, weights.cond.rest, weights.uncond.conditioning, weights.uncond.rest, weights.autoencoder}) {
    EXPECT_GT(bytes, 0);
  }
  EXPECT_GE(weights.place, layer);
}

TEST(ModelMemory, rows_grow_with_the_picture_the_text_and_the_steps) {
  const ModelMemory memory = demo();
  const ResidencyRows small = memory.rows(kPicture);
  PictureMemory larger = kPicture;
  larger.width = 512;
  const ResidencyRows wide = memory.rows(larger);
  EXPECT_NEAR(double(wide.maps), 2.0 * double(small.maps), 0.2 * double(small.maps));
  EXPECT_GT(wide.denoise_scratch, small.denoise_scratch);
  EXPECT_EQ(wide.text_scratch, small.text_scratch);
  larger = kPicture;
  larger.text_tokens = 600;
  EXPECT_GT(memory.rows(larger).text_scratch, small.text_scratch);
  EXPECT_GT(memory.rows(larger).features, small.features);
  larger = kPicture;
  larger.steps = 48;
  EXPECT_GT(memory.rows(larger).sessions, small.sessions);
  EXPECT_EQ(memory.rows(larger).maps, small.maps);
}

TEST(ModelMemory, a_loaded_choice_is_kept_while_it_fits) {
  const ModelMemory memory = demo();
  const std::int64_t plenty = 1ll << 40;
  const ResidencyChoice tight{.cond_streamed = 2, .uncond_streamed = 1, .keeps_conditioning = false, .lends_scratch = true};
  EXPECT_EQ(memory.plan("generate", kPicture, plenty).choice, ResidencyChoice{});
  EXPECT_EQ(memory.plan("generate", kPicture, plenty, tight).choice, tight);
  const std::int64_t least = smallest_budget(memory.weights(), memory.rows(kPicture));
  EXPECT_NE(memory.plan("generate", kPicture, least, ResidencyChoice{}).choice, ResidencyChoice{});
}

TEST(ModelMemory, a_refusal_names_what_is_needed_and_a_picture_that_fits) {
  const ModelMemory memory = demo();
  PictureMemory large = kPicture;
  large.width = large.height = 2048;
  const std::int64_t for_small = smallest_budget(memory.weights(), memory.rows(kPicture));
  const std::int64_t needed = smallest_budget(memory.weights(), memory.rows(large));
  try {
    (void)memory.plan("generate", large, (for_small + needed) / 2);
    FAIL() << "was accepted";
  } catch (const OutOfMemory& refused) {
    EXPECT_THAT(refused.what(), AllOf(HasSubstr("generate: 2048x2048"), HasSubstr("--vram " + memory_size_word(needed)), HasSubstr("or draw ")));
  }
  // What it names works.
  EXPECT_NO_THROW((void)memory.plan("generate", large, parse_memory_size("--vram", memory_size_word(needed))));
  try {
    (void)memory.plan("generate", kPicture, 1'000'000);
    FAIL() << "was accepted";
  } catch (const OutOfMemory& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("no smaller picture fits"));
  }
}

}  // namespace
}  // namespace octavo
