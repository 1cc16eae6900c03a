#include "pipeline/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "octavo/error.h"
#include "octavo/version.h"

namespace octavo {
namespace {

using testing::HasSubstr;

Request resolved() {
  return {.prompt = "it's \"quoted\" 😀", .width = 64, .height = 32, .steps = 3, .guidance = {7, 7, 0.1f}, .mu = 0.7, .std_dev = 1.5, .seed = 41, .batch = 3};
}

TEST(Metadata, holds_every_value_that_changes_a_byte) {
  const Json json = parse_json(request_json(resolved(), {.model = "m", .precision = "w8a8", .device = "cpu", .kernels = "avx512"}, 42), "test");
  EXPECT_EQ(json.at("version"), version());
  EXPECT_EQ(json.at("model"), "m");
  EXPECT_EQ(json.at("prompt"), "it's \"quoted\" 😀");
  EXPECT_EQ(json.at("width"), 64);
  EXPECT_EQ(json.at("height"), 32);
  EXPECT_EQ(json.at("steps"), 3);
  EXPECT_EQ(json.at("guidance").dump(), "[7.0,7.0,0.1]");
  EXPECT_EQ(json.at("mu"), 0.7);
  EXPECT_EQ(json.at("std"), 1.5);
  EXPECT_EQ(json.at("seed"), 42);
  EXPECT_EQ(json.at("schedule_end"), "zero");
  EXPECT_EQ(json.at("precision"), "w8a8");
  EXPECT_EQ(json.at("kernels"), "avx512");
}

// A5: a picture of a batch and the same seed alone must be the same bytes.
TEST(Metadata, does_not_know_the_batch) {
  Request single = resolved();
  single.batch = 1;
  single.seed = 42;
  EXPECT_EQ(picture_metadata(resolved(), {}, 42), picture_metadata(single, {}, 42));
}

TEST(Metadata, a_slice_of_given_noise_is_repeated_by_the_whole_batch) {
  Request request = resolved();
  request.noise = NoiseSource{"n.safetensors", "noise"};
  const Json json = parse_json(request_json(request, {}, 42), "test");
  EXPECT_EQ(json.at("noise"), "n.safetensors:noise");
  EXPECT_EQ(json.at("batch"), 3);
  EXPECT_EQ(json.at("seed"), 41);
}

TEST(Metadata, every_lora_is_an_option_of_its_own_with_its_strength) {
  Request request = resolved();
  EXPECT_FALSE(parse_json(request_json(request, {}, 0), "test").contains("lora"));
  request.loras = {{"a b.safetensors", 0.1}, {"c.safetensors"}};
  const std::string text = request_json(request, {}, 0);
  EXPECT_EQ(parse_json(text, "test").at("lora").dump(), R"(["a b.safetensors:0.1","c.safetensors:1"])");
  EXPECT_THAT(command_from_request_json(text), HasSubstr(" --lora 'a b.safetensors:0.1' --lora c.safetensors:1 "));
  EXPECT_THAT(command_from_request_json(R"({"lora":["x; rm -rf ~", ["y"], {"z": 1}]})"),  // from anybody
              testing::StrEq(R"(octavo generate --lora 'x; rm -rf ~' --lora '"y"' --lora '{"z":1}')"));
}

TEST(Metadata, constant_guidance_is_one_value) {
  Request request = resolved();
  request.guidance = {2.5f, 2.5f, 2.5f};
  EXPECT_EQ(parse_json(request_json(request, {}, 0), "test").at("guidance"), 2.5);
}

TEST(Metadata, becomes_a_command_that_a_shell_can_run) {
  const std::string command =
      command_from_request_json(request_json(resolved(), {.precision = "f32", .device = "cpu", .kernels = "reference", .cpu_reference = true}, 42));
  EXPECT_THAT(command, testing::StartsWith(
                           "octavo generate --prompt 'it'\\''s \"quoted\" 😀' --width 64 --height 32 --steps 3 --guidance 7.0,7.0,0.1 --mu 0.7 --std 1.5"));
  EXPECT_THAT(command, testing::EndsWith(" --schedule-end zero --seed 42 --precision f32 --device cpu --cpu-reference"));
}

TEST(Metadata, int8_attention_is_said_and_repeated) {
  const std::string text = request_json(resolved(), {.precision = "w8a8", .device = "cpu", .kernels = "avx2", .attention = "int8"}, 0);
  EXPECT_EQ(parse_json(text, "test").at("attention"), "int8");
  EXPECT_THAT(command_from_request_json(text), testing::EndsWith(" --device cpu --attention int8"));
  // What auto means depends on the GPU: floats that were asked for are asked for again.
  const std::string floats = request_json(resolved(), {.precision = "w8a8", .device = "cuda", .kernels = "sm_86", .attention = "bf16"}, 0);
  EXPECT_THAT(command_from_request_json(floats), testing::EndsWith(" --device cuda --attention bf16"));
  EXPECT_THAT(request_json(resolved(), {}, 0), testing::Not(HasSubstr("attention")));
}

TEST(Metadata, an_edited_chunk_is_damage_not_a_crash) {
  EXPECT_THROW(command_from_request_json("[1]"), DataError);
  // A key that we never write must not become a word of a command that is meant to be pasted.
  EXPECT_EQ(command_from_request_json(R"x({"x; rm -rf ~ #": true, "steps": 3, "$(id)": "y"})x"), "octavo generate --steps 3");
  EXPECT_EQ(command_from_request_json("{\"prompt\": \"a\\u001b[2J'b\"}"), "octavo generate --prompt $'a\\x1b[2J\\'b'");
  EXPECT_THROW(command_from_request_json("{"), DataError);
}

}  // namespace
}  // namespace octavo
