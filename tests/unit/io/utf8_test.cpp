#include "io/utf8.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

using namespace std::string_literals;
constexpr std::size_t kValid = std::string_view::npos;

TEST(Utf8, every_code_point_survives_writing_and_reading) {
  for (char32_t c = 1; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text = "x";
    append_utf8(text, c);
    ASSERT_EQ(first_invalid_byte(text), kValid) << std::hex << std::uint32_t(c);
    std::size_t at = 1;
    ASSERT_EQ(next_code_point(text, at), c);
    ASSERT_EQ(at, text.size());
  }
}

TEST(Utf8, offset_is_the_first_bad_byte) {
  EXPECT_EQ(first_invalid_byte(""), kValid);
  EXPECT_EQ(first_invalid_byte("ab\0c"s), 2u);
  EXPECT_EQ(first_invalid_byte("a\x80"), 1u);             // a continuation without a start
  EXPECT_EQ(first_invalid_byte("é\xff"), 2u);             // never in UTF-8
  EXPECT_EQ(first_invalid_byte("ab\xc0\xaf"), 2u);        // overlong '/'
  EXPECT_EQ(first_invalid_byte("\xc1\xbf"), 0u);          // overlong
  EXPECT_EQ(first_invalid_byte("\xe0\x9f\xbf"), 0u);      // overlong
  EXPECT_EQ(first_invalid_byte("\xf0\x8f\xbf\xbf"), 0u);  // overlong
  EXPECT_EQ(first_invalid_byte("x\xed\xa0\x80"), 1u);     // a surrogate
  EXPECT_EQ(first_invalid_byte("\xf4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(first_invalid_byte("\xf5\x80\x80\x80"), 0u);
}

TEST(Utf8, sequence_cut_off_at_the_end) {
  const std::string emoji = "😀";
  for (std::size_t length = 1; length < emoji.size(); ++length) EXPECT_EQ(first_invalid_byte("ab" + emoji.substr(0, length)), 2u);
  EXPECT_EQ(first_invalid_byte("\xe4\xb8"
                               "a"),
            0u);
}

}  // namespace
}  // namespace octavo
