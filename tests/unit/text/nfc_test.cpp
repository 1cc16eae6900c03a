#include "text/nfc.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "io/utf8.h"

namespace octavo {
namespace {

// utf8proc's own composition: the same tables, another (quadratic) way of ordering marks.
std::string reference_nfc(const std::string& text) {
  utf8proc_uint8_t* composed = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  std::string copy(reinterpret_cast<char*>(composed));
  std::free(composed);
  return copy;
}

std::string utf8(std::initializer_list<char32_t> code_points) {
  std::string text;
  for (const char32_t c : code_points) append_utf8(text, c);
  return text;
}

TEST(Nfc, composes_what_is_canonically_equal) {
  EXPECT_EQ(to_nfc(""), "");
  EXPECT_EQ(to_nfc("plain ASCII \r\n\t"), "plain ASCII \r\n\t");
  EXPECT_EQ(to_nfc(utf8({'e', 0x301})), utf8({0xe9}));
  EXPECT_EQ(to_nfc(utf8({'a', 0x301, 0x323})), utf8({0x1ea1, 0x301}));  // the lower mark first
  EXPECT_EQ(to_nfc(utf8({0x212b, 0x2126})), utf8({0xc5, 0x3a9}));       // singletons
  EXPECT_EQ(to_nfc(utf8({0x958})), utf8({0x915, 0x93c}));               // excluded from composition
  EXPECT_EQ(to_nfc(utf8({0x1112, 0x1161, 0x11ab})), utf8({0xd55c}));    // Hangul
  EXPECT_EQ(to_nfc(utf8({0xac00, 0x11a8})), utf8({0xac01}));
  EXPECT_EQ(to_nfc(utf8({0xfb01})), utf8({0xfb01}));  // a ligature is only compatible
  EXPECT_EQ(to_nfc(utf8({'a', 0x315, 0x300, 0x5ae, 0x300, 'b'})), utf8({0xe0, 0x5ae, 0x300, 0x315, 'b'}));
}

TEST(Nfc, every_code_point_between_letters_and_marks) {
  for (char32_t c = 1; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    const std::string text = utf8({'e', c, 0x301, c, 0x323, 0x1100, c});
    ASSERT_EQ(to_nfc(text), reference_nfc(text)) << std::hex << std::uint32_t(c);
  }
}

TEST(Nfc, twice_is_once) {
  std::mt19937 random(7);
  const std::vector<char32_t> pool = {'a',   'e',    0x300,  0x301,  0x323,  0x327,  0x345,  0x315, 0x5ae,  0x93c,
                                      0x915, 0x1100, 0x1161, 0x11a8, 0xac00, 0x1e69, 0x2adc, 0x344, 0x200d, 0x1f600};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) append_utf8(text, pool[random() % pool.size()]);
    const std::string once = to_nfc(text);
    ASSERT_EQ(once, reference_nfc(text));
    ASSERT_EQ(to_nfc(once), once);
  }
}

TEST(Nfc, megabyte_of_marks_in_the_wrong_order) {
  std::string text = "a";
  for (int i = 0; i < 250'000; ++i) text += "\u0301\u0323";  // 230 before 220: sorting by neighbours would take 6e10 swaps
  const auto start = std::chrono::steady_clock::now();
  const std::string composed = to_nfc(text);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(composed.substr(0, 3), "\u1ea1");
}

}  // namespace
}  // namespace octavo
