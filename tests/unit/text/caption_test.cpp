#include "text/caption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "octavo/error.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kPhoto =
    R"({"high_level_description":"a cat","style_description":{"aesthetics":"calm","lighting":"soft","photo":"50mm","medium":"photograph","color_palette":["#FF0000"]},"compositional_deconstruction":{"background":"a wall","elements":[{"type":"obj","bbox":[0,0,1000,1000],"desc":"cat","color_palette":["#00FF00"]},{"type":"text","bbox":[1,2,3,4],"text":"HELLO","desc":"sign"}]}})";

// A caption whose composition holds the given elements.
std::string with_elements(const std::string& elements) { return R"({"compositional_deconstruction":{"background":"b","elements":)" + elements + "}}"; }
std::string with_style(const std::string& style) {
  return R"({"style_description":)" + style + R"(,"compositional_deconstruction":{"background":"b","elements":[]}})";
}

TEST(Caption, well_formed_captions_have_no_warnings) {
  EXPECT_THAT(check_caption(kPhoto), IsEmpty());
  EXPECT_THAT(check_caption(with_elements("[]")), IsEmpty());
  EXPECT_THAT(check_caption(with_style(R"({"aesthetics":"a","lighting":"l","medium":"m","art_style":"s"})")), IsEmpty());
  EXPECT_THAT(check_caption(with_elements(R"([{"type":"obj","desc":"d"},{"type":"text","text":"t","desc":"d","color_palette":[]}])")), IsEmpty());
}

TEST(Caption, rule_1_not_json_or_not_an_object) {
  EXPECT_THAT(check_caption("a cat"), ElementsAre(HasSubstr("is not JSON")));
  EXPECT_THAT(check_caption("{\"a\":1"), ElementsAre(HasSubstr("is not JSON")));
  EXPECT_THAT(check_caption("[]"), ElementsAre(HasSubstr("not a JSON object")));
  EXPECT_THAT(check_caption(""), ElementsAre(HasSubstr("is not JSON")));
  EXPECT_THAT(check_caption(R"({"high_level_description":"a","high_level_description":"b"})"), ElementsAre(HasSubstr("twice")));
}

TEST(Caption, rule_2_escapes_instead_of_characters) {
  const auto text = [](const std::string& description) {
    return R"({"high_level_description":")" + description + R"(","compositional_deconstruction":{"background":"b","elements":[]}})";
  };
  EXPECT_THAT(check_caption(text("caf\\u00e9")), ElementsAre(HasSubstr("escapes")));
  EXPECT_THAT(check_caption(text("\\ud83d\\ude00")), ElementsAre(HasSubstr("escapes")));
  EXPECT_THAT(check_caption(text("caf\\u00e9 é")), IsEmpty());  // somebody writes literally already
  EXPECT_THAT(check_caption(text("tab \\u0009")), IsEmpty());   // below 0x80
  EXPECT_THAT(check_caption(text("\\\\u00e9")), IsEmpty());     // a backslash and letters
}

TEST(Caption, rule_3_unknown_keys) {
  EXPECT_THAT(check_caption(R"({"prompt":"x","compositional_deconstruction":{"background":"b","elements":[]}})"), ElementsAre(HasSubstr("'prompt'")));
  EXPECT_THAT(check_caption(with_style(R"({"aesthetics":"a","lighting":"l","photo":"p","medium":"m","mood":"x"})")), testing::Contains(HasSubstr("'mood'")));
  EXPECT_THAT(check_caption(with_elements(R"([{"type":"obj","desc":"d","size":3}])")), testing::Contains(HasSubstr("'size'")));
}

TEST(Caption, rule_4_composition) {
  EXPECT_THAT(check_caption("{}"), ElementsAre(HasSubstr("'compositional_deconstruction'")));
  EXPECT_THAT(check_caption(R"({"compositional_deconstruction":[]})"), ElementsAre(HasSubstr("not an object")));
  EXPECT_THAT(check_caption(R"({"compositional_deconstruction":{"elements":5}})"), ElementsAre(HasSubstr("'background'")));  // and stops
  EXPECT_THAT(check_caption(R"({"compositional_deconstruction":{"background":3,"elements":5}})"), ElementsAre(HasSubstr("'background'")));
  EXPECT_THAT(check_caption(R"({"compositional_deconstruction":{"background":"b"}})"), ElementsAre(HasSubstr("'elements'")));
  EXPECT_THAT(check_caption(R"({"compositional_deconstruction":{"background":"b","elements":{}}})"), ElementsAre(HasSubstr("'elements'")));
  EXPECT_THAT(check_caption(R"({"compositional_deconstruction":{"elements":[],"background":"b"}})"), ElementsAre(HasSubstr("before 'background'")));
}

TEST(Caption, rule_5_description_is_text) {
  EXPECT_THAT(check_caption(R"({"high_level_description":[],"compositional_deconstruction":{"background":"b","elements":[]}})"),
              ElementsAre(HasSubstr("high_level_description")));
}

TEST(Caption, rule_6_style) {
  EXPECT_THAT(check_caption(with_style("3")), ElementsAre(HasSubstr("not an object")));
  EXPECT_THAT(check_caption(with_style(R"({"aesthetics":"a"})")), ElementsAre(HasSubstr("neither")));
  EXPECT_THAT(check_caption(with_style(R"({"photo":"p","art_style":"s"})")), ElementsAre(HasSubstr("both")));
  EXPECT_THAT(check_caption(with_style(R"({"lighting":"l","aesthetics":"a","photo":"p","medium":"m"})")),
              ElementsAre(HasSubstr("aesthetics, lighting, photo, medium")));
  EXPECT_THAT(check_caption(with_style(R"({"aesthetics":"a","lighting":"l","medium":"m","photo":"p"})")),
              ElementsAre(HasSubstr("order")));  // the order of the other kind
  EXPECT_THAT(check_caption(with_style(R"({"aesthetics":"a","lighting":"l","art_style":"s"})")), ElementsAre(HasSubstr("has no 'medium'")));
  EXPECT_THAT(check_caption(with_style(R"({"color_palette":[],"aesthetics":"a","lighting":"l","medium":"m","art_style":"s"})")),
              ElementsAre(HasSubstr("art_style, color_palette")));
}

TEST(Caption, rule_7_elements) {
  EXPECT_THAT(check_caption(with_elements("[3]")), ElementsAre(AllOf(HasSubstr("elements[0]"), HasSubstr("not an object"))));
  EXPECT_THAT(check_caption(with_elements(R"([{"desc":"d"}])")), ElementsAre(HasSubstr("'type'")));
  EXPECT_THAT(check_caption(with_elements(R"([{"type":"person","desc":"d"}])")), ElementsAre(HasSubstr("'type'")));
  EXPECT_THAT(check_caption(with_elements(R"([{"type":7,"desc":"d"}])")), ElementsAre(HasSubstr("'type'")));
  EXPECT_THAT(check_caption(with_elements(R"([{"type":"obj"}])")), ElementsAre(HasSubstr("'desc'")));
  EXPECT_THAT(check_caption(with_elements(R"([{"type":"text","desc":"d"}])")), ElementsAre(HasSubstr("'text'")));
  EXPECT_THAT(check_caption(with_elements(R"([{"desc":"d","type":"obj"}])")), ElementsAre(HasSubstr("type, desc")));
  EXPECT_THAT(check_caption(with_elements(R"([{"type":"obj","desc":"d","bbox":[0,0,1,1]}])")), ElementsAre(HasSubstr("type, bbox, desc")));
  EXPECT_THAT(check_caption(with_elements(R"([{"type":"obj","text":"t","desc":"d"}])")), ElementsAre(HasSubstr("has 'text'")));
  EXPECT_THAT(check_caption(with_elements(R"([{"type":"obj","desc":"d"},{"type":"text","desc":"d","text":"t"}])")), ElementsAre(HasSubstr("elements[1]")));
}

TEST(Caption, rule_8_boxes) {
  const auto box = [](const std::string& value) { return check_caption(with_elements(R"([{"type":"obj","bbox":)" + value + R"(,"desc":"d"}])")); };
  EXPECT_THAT(box("[0,0,0,0]"), IsEmpty());
  EXPECT_THAT(box("[1000,1000,1000,1000]"), IsEmpty());
  EXPECT_THAT(box("\"x\""), ElementsAre(HasSubstr("four whole numbers")));
  EXPECT_THAT(box("[0,0,1]"), ElementsAre(HasSubstr("four whole numbers")));
  EXPECT_THAT(box("[0,0,1,1.0]"), ElementsAre(HasSubstr("four whole numbers")));
  EXPECT_THAT(box("[0,0,1,1001]"), ElementsAre(HasSubstr("0 to 1000")));
  EXPECT_THAT(box("[-1,0,1,1]"), ElementsAre(HasSubstr("0 to 1000")));
  EXPECT_THAT(box("[0,0,1,18446744073709551615]"), testing::Contains(HasSubstr("0 to 1000")));
  EXPECT_THAT(box("[5,0,4,1]"), ElementsAre(HasSubstr("ymin > ymax")));
  EXPECT_THAT(box("[0,5,1,4]"), ElementsAre(HasSubstr("xmin > xmax")));
}

TEST(Caption, rule_9_palettes) {
  const auto element = [](const std::string& palette) {
    return check_caption(with_elements(R"([{"type":"obj","desc":"d","color_palette":)" + palette + "}]"));
  };
  const auto style = [](const std::string& palette) {
    return check_caption(with_style(R"({"aesthetics":"a","lighting":"l","photo":"p","medium":"m","color_palette":)" + palette + "}"));
  };
  const auto colors = [](int count) {
    std::string list = "[";
    for (int i = 0; i < count; ++i) list += i > 0 ? ",\"#0A1B2C\"" : "\"#0A1B2C\"";
    return list + "]";
  };
  EXPECT_THAT(element(colors(5)), IsEmpty());
  EXPECT_THAT(element(colors(6)), ElementsAre(HasSubstr("6 colours; at most 5")));
  EXPECT_THAT(style(colors(16)), IsEmpty());
  EXPECT_THAT(style(colors(17)), ElementsAre(HasSubstr("17 colours; at most 16")));
  EXPECT_THAT(element("\"#FFFFFF\""), ElementsAre(HasSubstr("not a list")));
  for (const char* bad : {"\"#ffffff\"", "\"#FFF\"", "\"FFFFFF\"", "\"#GGGGGG\"", "\"#FFFFFF0\"", "16777215"})
    EXPECT_THAT(element(std::string("[") + bad + "]"), ElementsAre(HasSubstr("not a colour"))) << bad;
}

TEST(Caption, warnings_come_in_the_order_of_the_caption) {
  EXPECT_THAT(check_caption(R"({"x":1,"high_level_description":1,"style_description":1,"compositional_deconstruction":1})"),
              ElementsAre(HasSubstr("'x'"), HasSubstr("high_level_description"), HasSubstr("style_description"), HasSubstr("compositional_deconstruction")));
}

TEST(CompactCaption, spaces_go_order_and_characters_stay) {
  EXPECT_EQ(compact_caption("{ \"z\" : [ 1 , 2.5 , true , null ] ,\n \"a\" : \"caf\\u00e9 \\ud83d\\ude00 , : \\\" \\n\" }"),
            "{\"z\":[1,2.5,true,null],\"a\":\"café 😀 , : \\\" \\n\"}");
  EXPECT_EQ(compact_caption(kPhoto), kPhoto);
  EXPECT_THROW(compact_caption("a cat"), DataError);
}

TEST(LooksLikeCaption, first_sign_decides) {
  EXPECT_TRUE(looks_like_caption(" \n\t{"));
  EXPECT_FALSE(looks_like_caption("a {cat}"));
  EXPECT_FALSE(looks_like_caption(""));
  EXPECT_FALSE(looks_like_caption("[]"));
}

}  // namespace
}  // namespace octavo
