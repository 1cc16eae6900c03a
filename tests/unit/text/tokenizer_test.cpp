#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "io/json.h"
#include "io/safetensors.h"
#include "octavo/error.h"
#include "text/nfc.h"
#include "unit/io/temporary_folder.h"

namespace octavo {
namespace {

using testing::HasSubstr;
using testing_files::message_of;
using namespace std::string_literals;
using Ids = std::vector<std::int32_t>;

const std::filesystem::path kSource = OCTAVO_SOURCE_DIR;
const std::filesystem::path kDemo = kSource / "models/demo/tokenizer";

const Tokenizer& demo() {
  static const Tokenizer tokenizer(kDemo);
  return tokenizer;
}

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, prompts_have_the_ids_of_the_reference) {
  const std::filesystem::path folder = kSource / "tests/golden/data" / GetParam();
  const Tokenizer tokenizer(folder / "tokenizer");
  const SafetensorsFile expected(folder / "expected.safetensors");
  const Json prompts = read_json(folder / "expected.json")["prompts"];
  ASSERT_GE(prompts.size(), 5u);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const TensorView wanted = expected.tensor("tokens." + std::to_string(i));
    const Ids ids(wanted.as<std::int32_t>(), wanted.as<std::int32_t>() + wanted.shape.elements());
    EXPECT_EQ(tokenizer.encode(chat_prompt(prompts[i].get<std::string>())), ids) << prompts[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TokenizerGolden, testing::Values("tiny-hd64", "tiny-hd256"),
                         [](const auto& instance) { return std::string(instance.param).substr(5); });

TEST(Tokenizer, hard_texts_have_the_ids_of_the_reference) {
  const Json file = read_json(kSource / "tests/unit/text/data/tokenizer_cases.json");
  ASSERT_GE(file["cases"].size(), 100u);
  for (const Json& item : file["cases"]) EXPECT_EQ(demo().encode(item["text"].get<std::string>()), item["ids"].get<Ids>()) << item["name"];
}

TEST(TokenizerLaws, decoding_gives_the_normalised_text) {
  const Json file = read_json(kSource / "tests/unit/text/data/tokenizer_cases.json");
  for (const Json& item : file["cases"]) {
    const std::string text = item["text"];
    if (text.find("<|im_end|>") == text.npos) {  // normalisation stops at special tokens
      EXPECT_EQ(demo().decode(demo().encode(text)), to_nfc(text)) << item["name"];
    }
  }
  EXPECT_EQ(demo().decode(demo().encode("e<|im_end|>\u0301")), "e<|im_end|>\u0301");
}

TEST(TokenizerLaws, texts_joined_by_a_special_token_are_encoded_apart) {
  const std::string end = "<|im_end|>";
  const Ids token = demo().encode(end);
  ASSERT_EQ(token.size(), 1u);
  const std::vector<std::string> texts = {"", " ", "it", "'s here", "\n\n", "é\u0301", "世界", "<|im_", "end|>"};
  for (const std::string& left : texts) {
    for (const std::string& right : texts) {
      Ids joined = demo().encode(left);
      joined.push_back(token[0]);
      for (const std::int32_t id : demo().encode(right)) joined.push_back(id);
      EXPECT_EQ(demo().encode(left + end + right), joined) << left << "|" << right;
    }
  }
}

TEST(Tokenizer, threads_may_share_it) {
  const std::string text = chat_prompt("three orange stars, it's 12 😀 世界");
  const Ids expected = demo().encode(text);
  std::vector<Ids> found(6);
  std::vector<std::thread> threads;
  for (Ids& ids : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) ids = demo().encode(text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

TEST(Tokenizer, empty_prompt_is_the_template_alone) {
  EXPECT_TRUE(demo().encode("").empty());
  const Ids ids = demo().encode(chat_prompt(""));
  EXPECT_EQ(demo().decode(ids), "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Tokenizer, invalid_utf8_and_nul_name_the_byte) {
  const auto complaint = [](const std::string& text) { return message_of<InvalidArgument>([&] { demo().encode(text); }); };
  EXPECT_THAT(complaint("abc\xff"), testing::AllOf(HasSubstr("byte 3"), HasSubstr("0xff")));
  EXPECT_THAT(complaint("é\0"s), testing::AllOf(HasSubstr("byte 2"), HasSubstr("0x00")));
  EXPECT_THAT(complaint("x\xed\xa0\x80"), HasSubstr("byte 1"));
  EXPECT_THAT(complaint("ab😀"s.substr(0, 4)), HasSubstr("byte 2"));
}

TEST(Tokenizer, decode_refuses_ids_that_do_not_exist) {
  EXPECT_THROW(demo().decode({-1}), InvalidArgument);
  EXPECT_THROW(demo().decode({std::int32_t(demo().vocabulary_size())}), InvalidArgument);
  EXPECT_NO_THROW(demo().decode({std::int32_t(demo().vocabulary_size() - 1)}));
}

TEST(Tokenizer, vocabulary_size_counts_the_added_tokens) { EXPECT_EQ(demo().vocabulary_size(), 605); }

// A megabyte of one thing: what makes a backtracking split or a quadratic merge hang. Measured: 0.02 to 0.2 s each; with sanitizers ten times that.
class EndlessText : public testing::TestWithParam<std::pair<const char*, std::string>> {};

TEST_P(EndlessText, megabyte_takes_no_time) {
  std::string text;
  while (text.size() < 1'000'000) text += GetParam().second;
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& whole : {text, text + "x", "x" + text + "\n", text + "<|im_end|>"}) {
    const Ids ids = demo().encode(whole);
    EXPECT_EQ(demo().decode(ids).size(), to_nfc(whole).size());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

INSTANTIATE_TEST_SUITE_P(Of, EndlessText,
                         testing::Values(std::pair("letter", "a"s), std::pair("space", " "s), std::pair("newline", "\n"s), std::pair("space_and_tab", " \t"s),
                                         std::pair("carriage_return", "\r"s), std::pair("digit", "7"s), std::pair("sign", "!"s), std::pair("apostrophe", "'"s),
                                         std::pair("contraction", "'s"s), std::pair("ideograph", "世"s), std::pair("emoji", "😀"s),
                                         std::pair("wrong_marks", "\u0301\u0323"s), std::pair("hangul_jamo", "\u1100\u1161\u11a8"s),
                                         std::pair("wide_space", "\u3000"s), std::pair("half_a_special_token", "<|im_"s),
                                         std::pair("special_token", "<|im_end|>"s), std::pair("words", "e t a on"s)),
                         [](const auto& instance) { return std::string(instance.param.first); });

TEST(Tokenizer, text_too_large_is_refused) { EXPECT_THROW(demo().encode(std::string((64u << 20) + 1, 'a')), InvalidArgument); }

}  // namespace
}  // namespace octavo
