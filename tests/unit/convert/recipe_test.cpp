#include "convert/recipe.h"

#include <gmock/gmock.h>

#include "octavo/error.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;

TEST(RotationGroup, largest_power_of_4_that_divides) {
  EXPECT_EQ(rotation_group_for(4608, 256), 256);
  EXPECT_EQ(rotation_group_for(128, 256), 64);
  EXPECT_EQ(rotation_group_for(224, 256), 16);
  EXPECT_EQ(rotation_group_for(192, 16), 16);
  EXPECT_EQ(rotation_group_for(12, 256), 4);
  EXPECT_EQ(rotation_group_for(6, 256), 0);
  EXPECT_EQ(rotation_group_for(4608, 0), 0);
}

TEST(Matches, stars_stand_for_anything_and_the_whole_name_must_fit) {
  EXPECT_TRUE(matches("layers.0.attention.o", "layers.0.attention.o"));
  EXPECT_TRUE(matches("layers.*.w2", "layers.12.feed_forward.w2"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*a*b*", "xxaxxabxx"));
  EXPECT_TRUE(matches("*ab", "aab"));  // the star must come back
  EXPECT_FALSE(matches("layers.1", "layers.12"));
  EXPECT_FALSE(matches("ayers*", "layers.1"));
  EXPECT_FALSE(matches("", "x"));
  EXPECT_TRUE(matches("**", "x"));
}

TEST(NearestNames, by_edit_distance) {
  const std::vector<std::string> names{"layers.0.attention.qkv", "layers.0.attention.o", "final_layer.linear"};
  EXPECT_THAT(nearest_names("layers.0.atention.o", names, 1), ElementsAre("layers.0.attention.o"));
  EXPECT_EQ(nearest_names("x", names, 9).size(), 3u);
}

TEST(Recipe, groups_that_are_no_power_of_4) {
  for (const int group : {1, 2, 8, 12, 100, 16384, -4}) EXPECT_THROW(QuantizeRecipe{.group = group}.validate(), InvalidArgument) << group;
  for (const int group : {0, 4, 16, 64, 256, 1024, 4096}) EXPECT_NO_THROW(QuantizeRecipe{.group = group}.validate()) << group;
}

}  // namespace
}  // namespace octavo
