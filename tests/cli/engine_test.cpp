// The library's front door, linked as a stranger links it: public headers and liboctavo.so only.
#include "octavo/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace octavo {
namespace {

using testing::HasSubstr;

const char* const kTiny = OCTAVO_SOURCE_DIR "/tests/golden/data/tiny-hd64";

Request small_request() {
  return {.prompt = "two red squares", .width = 32, .height = 32, .steps = 2, .guidance = {2.0f}, .mu = 0.0, .std_dev = 1.5, .seed = 5};
}

TEST(Engine, one_engine_gives_the_same_picture_every_time_and_after_other_requests) {
  Engine engine({.model = kTiny});
  const auto first = engine.generate(small_request());
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].rgb.size(), 32u * 32 * 3);
  Request other = small_request();
  other.prompt = "something longer, and another size";
  other.width = 64;
  engine.generate(other);
  const auto again = engine.generate(small_request());
  EXPECT_EQ(first[0].rgb, again[0].rgb);
  EXPECT_EQ(first[0].metadata, again[0].metadata);
  Engine fresh({.model = kTiny, .threads = 1});
  fresh.load();
  EXPECT_EQ(fresh.generate(small_request())[0].rgb, first[0].rgb);
}

TEST(Engine, resolve_fills_every_field_and_draws_nothing) {
  const Engine engine({.model = kTiny});
  std::vector<std::string> lines;
  Callbacks callbacks;
  callbacks.advisory = [&](const std::string& line) { lines.push_back(line); };
  const Request full = engine.resolve({.prompt = "x", .preset = "turbo-12"}, callbacks);
  EXPECT_EQ(full.width, 1024);
  EXPECT_EQ(full.steps, 12);
  EXPECT_EQ(full.guidance.size(), 12u);
  EXPECT_EQ(full.mu, 0.5);
  EXPECT_FALSE(lines.empty());
  EXPECT_THROW(engine.resolve({.width = 1000}), InvalidArgument);
}

TEST(Engine, progress_comes_in_order_with_every_step) {
  Engine engine({.model = kTiny});
  Request request = small_request();
  request.batch = 2;
  std::vector<std::string> seen;
  int pictures = 0;
  Callbacks callbacks;
  callbacks.progress = [&](const Progress& p) {
    EXPECT_GE(p.seconds, 0);
    if (p.part == "denoise" && p.step > 0) seen.push_back(std::to_string(p.picture) + ":" + std::to_string(p.step) + "/" + std::to_string(p.steps));
  };
  callbacks.picture = [&](const Image& image) { EXPECT_EQ(image.seed, 5u + std::uint64_t(pictures++)); };
  engine.generate(request, callbacks);
  EXPECT_THAT(seen, testing::ElementsAre("0:1/2", "0:2/2", "1:1/2", "1:2/2"));
  EXPECT_EQ(pictures, 2);
}

TEST(Engine, cancelling_leaves_an_engine_that_still_works) {
  Engine engine({.model = kTiny});
  const auto wanted = engine.generate(small_request());
  int polls = 0;
  Callbacks callbacks;
  callbacks.cancelled = [&] { return ++polls > 3; };
  EXPECT_THROW(engine.generate(small_request(), callbacks), Cancelled);
  EXPECT_EQ(engine.generate(small_request())[0].rgb, wanted[0].rgb);
}

// Cancelled at polls all along the way, also while the weights are loaded: each time a clean end.
TEST(Engine, cancelling_at_any_poll) {
  for (int stop_at = 1; stop_at < 10'000; stop_at += 1 + stop_at / 8) {
    Engine engine({.model = kTiny, .threads = 1});
    int polls = 0;
    Callbacks callbacks;
    callbacks.cancelled = [&] { return ++polls == stop_at; };
    try {
      engine.generate(small_request(), callbacks);
      EXPECT_LT(polls, stop_at) << "a poll that said stop was not heard";
      return;
    } catch (const Cancelled&) {
      EXPECT_EQ(polls, stop_at);
    }
  }
  FAIL() << "there is no end of polls";
}

TEST(Engine, what_a_callback_throws_comes_back_as_it_is) {
  Engine engine({.model = kTiny});
  Callbacks callbacks;
  callbacks.progress = [](const Progress&) { throw std::logic_error("mine"); };
  EXPECT_THROW(engine.generate(small_request(), callbacks), std::logic_error);
}

TEST(Engine, errors_of_every_class_cross_the_library) {
  try {
    Engine engine({.model = "no-such-folder"});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("no-such-folder"));
    EXPECT_EQ(error.exit_code(), 2);
  }
  EXPECT_THROW(Engine({.model = kTiny, .precision = "int3"}), InvalidArgument);
  EXPECT_THROW(Engine({.model = kTiny, .device = "abacus"}), InvalidArgument);
  EXPECT_THROW(Engine({.model = kTiny, .threads = -1}), InvalidArgument);
  EXPECT_THROW(Engine({.model = kTiny, .device = "cuda:77"}), Unsupported);
  Engine engine({.model = kTiny});
  Request huge = small_request();
  huge.width = huge.height = 1 << 20;
  huge.force = true;
  EXPECT_THROW(engine.generate(huge), OutOfMemory);
}

TEST(Engine, can_be_moved) {
  Engine first({.model = kTiny});
  Engine second = std::move(first);
  EXPECT_EQ(second.model(), kTiny);
  EXPECT_EQ(second.precision(), "f32");
  EXPECT_EQ(second.generate(small_request()).size(), 1u);
}

}  // namespace
}  // namespace octavo
