#include "pipeline/presets.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace octavo {
namespace {

std::vector<float> repeated(int count, float value, int tail_count, float tail) {
  std::vector<float> values(std::size_t(count), value);
  values.insert(values.end(), std::size_t(tail_count), tail);
  return values;
}

// spec section 8.2, in time order: the small values come last. The published tuples are stored the other way round (trap 11).
TEST(Presets, numbers_of_the_spec) {
  const Preset& quality = *find_preset("quality-48");
  EXPECT_EQ(guidance_of(quality, quality.steps), repeated(45, 7, 3, 3));
  EXPECT_EQ(std::pair(quality.mu, quality.std_dev), std::pair(0.0, 1.5));
  const Preset& standard = *find_preset("default-20");
  EXPECT_EQ(guidance_of(standard, standard.steps), repeated(18, 7, 2, 3));
  EXPECT_EQ(std::pair(standard.mu, standard.std_dev), std::pair(0.0, 1.75));
  const Preset& turbo = *find_preset("turbo-12");
  EXPECT_EQ(guidance_of(turbo, turbo.steps), repeated(11, 7, 1, 3));
  EXPECT_EQ(std::pair(turbo.mu, turbo.std_dev), std::pair(0.5, 1.75));
  EXPECT_EQ(find_preset("quality"), nullptr);
  EXPECT_EQ(kDefaultPreset.name, "default-20");
}

TEST(Presets, another_step_count_keeps_the_tail) {
  const Preset& quality = *find_preset("quality-48");
  EXPECT_EQ(guidance_of(quality, 10), repeated(7, 7, 3, 3));
  EXPECT_EQ(guidance_of(quality, 60), repeated(57, 7, 3, 3));
}

TEST(Presets, few_steps_shorten_the_tail_but_keep_one_full_step) {
  const Preset& quality = *find_preset("quality-48");
  EXPECT_EQ(guidance_of(quality, 4), repeated(1, 7, 3, 3));
  EXPECT_EQ(guidance_of(quality, 3), repeated(1, 7, 2, 3));
  EXPECT_EQ(guidance_of(quality, 2), repeated(1, 7, 1, 3));
  EXPECT_EQ(guidance_of(quality, 1), repeated(1, 7, 0, 3));
}

TEST(Presets, a_list_of_the_model_is_stretched_like_a_preset) {
  const std::vector<float> list{5, 5, 5, 2, 2};
  EXPECT_EQ(guidance_stretched(list, 5), list);
  EXPECT_EQ(guidance_stretched(list, 8), repeated(6, 5, 2, 2));
  EXPECT_EQ(guidance_stretched(list, 2), repeated(1, 5, 1, 2));
  EXPECT_EQ(guidance_stretched(list, 1), repeated(1, 5, 0, 2));
  EXPECT_EQ(guidance_stretched(std::vector<float>{4}, 3), repeated(3, 4, 0, 0));
  EXPECT_EQ(guidance_stretched(std::vector<float>{4, 4}, 3), repeated(3, 4, 0, 0));
}

}  // namespace
}  // namespace octavo
