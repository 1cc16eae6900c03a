#include "pipeline/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "octavo/error.h"

namespace octavo {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The full model at 1024 x 1024 with 300 text tokens.
MemoryQuestion full_model() {
  return {.text_tokens = 300,
          .text_hidden = 4096,
          .text_intermediate = 12288,
          .text_features = 53248,
          .image_tokens = 4096,
          .channels = 128,
          .hidden = 4608,
          .intermediate = 12288,
          .layers = 34,
          .head_dim = 256,
          .pixels = 1024.0 * 1024,
          .decoder_channels = decoder_channels_of({128, 256, 512, 512}),
          .steps = 20,
          .batch = 1};
}

double total(const std::vector<MemoryItem>& items) {
  double sum = 0;
  for (const MemoryItem& item : items) sum += item.bytes;
  return sum;
}

// The decoder holds two maps of 128 channels at full resolution and one of 256 at half of it: 2^20 * (2 * 128 + 256 / 4) * 4 bytes = 1.25 GiB, the largest
// part.
TEST(Memory, full_model_at_1024_needs_about_one_and_a_third_gib) {
  const auto items = estimate_memory(full_model());
  EXPECT_THAT(items.front().what, HasSubstr("decoder"));
  EXPECT_NEAR(total(items), 1.37 * (1u << 30), 0.03 * (1u << 30));
}

TEST(Memory, dump_quantised_weights_and_batch_are_counted) {
  MemoryQuestion question = full_model();
  const double plain = total(estimate_memory(question));
  question.copied_weights_bytes = 1e9;
  EXPECT_DOUBLE_EQ(total(estimate_memory(question)) - plain, 1e9);
  question.keeps_dump = true;
  EXPECT_GT(total(estimate_memory(question)) - plain, 1e9 + 3 * 20 * 4096 * 128 * 4.0);
}

TEST(Memory, sizes_beyond_every_integer_are_refused_not_wrapped) {
  MemoryQuestion question = full_model();
  question.image_tokens = 1e16;
  question.pixels = 2.56e18;
  EXPECT_THROW(require_memory(estimate_memory(question), 1e12), OutOfMemory);
}

TEST(Memory, refusal_says_how_much_for_what_what_is_there_and_what_helps) {
  try {
    require_memory(estimate_memory(full_model()), double(1u << 30));
    FAIL() << "was accepted";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("1.4 GiB wanted"), HasSubstr("1.3 GiB for activations of the decoder"),
                                    HasSubstr("96 MiB for the modulation rows of 20 steps"), HasSubstr("1.0 GiB available"), HasSubstr("smaller --width")));
  }
}

TEST(Memory, this_machine_has_some) {
  EXPECT_GT(available_memory(), 1e6);
  EXPECT_NO_THROW(require_memory({{"a page", 4096}}, available_memory()));
}

}  // namespace
}  // namespace octavo
