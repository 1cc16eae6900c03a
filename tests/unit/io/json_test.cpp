#include "io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "octavo/error.h"
#include "unit/io/temporary_folder.h"

namespace octavo {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_files::message_of;
using namespace std::string_literals;

std::string complaint(std::string_view text) {
  return message_of<DataError>([&] { parse_json(text, "test.json"); });
}

TEST(Json, key_order_and_values_are_kept) {
  const Json value = parse_json(R"( {"z":1,"a":[true,false,null,-2,1.5,18446744073709551615],"m":{"é":"\u00e9\n"}} )", "test.json");
  EXPECT_EQ(value.dump(), "{\"z\":1,\"a\":[true,false,null,-2,1.5,18446744073709551615],\"m\":{\"é\":\"é\\n\"}}");
}

TEST(Json, scalars_may_stand_alone) {
  EXPECT_EQ(parse_json("3", "t"), 3);
  EXPECT_EQ(parse_json("\"x\"", "t"), "x");
  EXPECT_TRUE(parse_json("[]", "t").empty());
  EXPECT_TRUE(parse_json("{}", "t").is_object());
}

TEST(Json, error_names_file_reason_and_byte) {
  EXPECT_THAT(complaint("{\"a\": tru}"), testing::AllOf(HasSubstr("test.json: is not JSON"), HasSubstr("at byte 9"), HasSubstr("invalid literal")));
  EXPECT_THAT(complaint("[1,2"), HasSubstr("at byte 4"));
  EXPECT_THAT(complaint(""), HasSubstr("at byte 0"));
  EXPECT_THAT(complaint("[1] x"), HasSubstr("at byte 4"));
  EXPECT_THAT(complaint("[1e999]"), HasSubstr("number overflow"));
}

TEST(Json, error_message_stays_short_and_printable) {
  const std::string message = complaint("[\"" + std::string(100'000, 'x') + "\x01");
  EXPECT_FALSE(message.empty());
  EXPECT_LT(message.size(), 400u);
  EXPECT_EQ(message.find('\x01'), message.npos);
}

TEST(Json, invalid_utf8_nan_comments_and_trailing_commas_are_errors) {
  for (const std::string& text : {"[\"\xff\"]"s, "[NaN]"s, "[1,]"s, "{\"a\":1,}"s, "// x\n[]"s, "['a']"s, "{a:1}"s, "[\"\\ud800\"]"s, "[\"a\nb\"]"s})
    EXPECT_NE(complaint(text), "") << text;
}

TEST(Json, nul_does_not_end_the_text_silently) {
  EXPECT_THAT(complaint("[1]\0garbage"s), HasSubstr("NUL byte at byte 3"));
  EXPECT_THAT(complaint("[\"a\0b\"]"s), HasSubstr("NUL byte at byte 3"));
}

TEST(Json, deep_nesting_is_refused_before_it_is_built) {
  const auto nested = [](int depth) { return std::string(std::size_t(depth), '[') + std::string(std::size_t(depth), ']'); };
  EXPECT_NO_THROW(parse_json(nested(kMaxJsonDepth), "t"));
  EXPECT_THAT(complaint(nested(kMaxJsonDepth + 1)), HasSubstr("nested deeper than 64 at byte 64"));
  EXPECT_NE(complaint(std::string(10'000'000, '[')), "");
  EXPECT_EQ(parse_json("\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"", "t").get<std::string>().size(),
            201u);  // brackets in strings do not count
}

TEST(Json, key_named_twice_is_an_error) {
  EXPECT_THAT(complaint(R"({"a":1,"b":{"c":1,"d":2,"c":3}})"), HasSubstr("names 'c' twice"));
  EXPECT_THAT(complaint(R"({"a":1,"\u0061":2})"), HasSubstr("names 'a' twice"));  // the same key in another spelling
  EXPECT_EQ(complaint(R"({"a":{"a":{"a":[{"a":1},{"a":2}]}}})"), "");
}

TEST(Json, large_object_takes_linear_time) {
  // The library's own parser compares each new key with all before it: 3e10 comparisons here, minutes. Linear is a fraction of a second.
  std::string text = "{";
  for (int i = 0; i < 250'000; ++i) text += (i > 0 ? ",\"key" : "\"key") + std::to_string(i) + "\":" + std::to_string(i);
  const auto start = std::chrono::steady_clock::now();
  const Json value = parse_json(text + "}", "t");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(value.size(), 250'000u);
}

TEST(Json, file_that_is_missing_empty_or_something_else) {
  const testing_files::TemporaryFolder folder;
  EXPECT_THROW(read_json(folder.path() / "absent.json"), InvalidArgument);
  EXPECT_THROW(read_json(folder.path()), InvalidArgument);
  const auto complaint_about = [&](std::string_view text) {
    const auto path = folder.write("config.json", text);
    return message_of<DataError>([&] { read_json(path); });
  };
  EXPECT_THAT(complaint_about(""), testing::AllOf(HasSubstr("config.json"), HasSubstr("is empty")));
  EXPECT_THAT(complaint_about("<!DOCTYPE html><html>"), HasSubstr("HTML page"));
  EXPECT_THAT(complaint_about("\n <HTML>"), HasSubstr("HTML page"));
  EXPECT_THAT(complaint_about("version https://git-lfs"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(complaint_about("hello"), testing::AllOf(HasSubstr("config.json"), HasSubstr("is not JSON")));
  EXPECT_EQ(read_json(folder.write("good.json", "{\"a\":1}"))["a"], 1);
}

TEST(Excerpt, cuts_between_characters_and_hides_controls) {
  EXPECT_EQ(excerpt("short"), "short");
  EXPECT_EQ(excerpt("a\nb\x7f"), "a?b?");
  EXPECT_EQ(excerpt("ab世界", 4), "ab…");  // 4 falls inside 世
  EXPECT_EQ(excerpt("ab世界", 5), "ab世…");
}

}  // namespace
}  // namespace octavo
