#include "receipt/page.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/png.h"
#include "receipt/base64.h"
#include "receipt/page_parts.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Image grey(std::uint8_t value) { return {.width = 16, .height = 16, .rgb = std::vector<std::uint8_t>(768, value)}; }

QuantizedLayer layer(const std::string& module, double output_error, bool is_quantized = true) {
  QuantizedLayer result{
      .module = module, .shape = {64, 32}, .before = "bf16", .after = is_quantized ? "int8" : "kept: sensitive", .is_quantized = is_quantized};
  result.relative_error = 0.008;
  result.output_error = output_error;
  result.bytes_before = 4096;
  result.bytes_after = 2304;
  return result;
}

Receipt receipt_of(std::vector<double> errors, std::uint8_t after = 100) {
  Receipt receipt{.source = "models/demo/", .output = "out/demo-int8", .recipe = "int8 rows", .version = "octavo 1", .calibration = "1 prompt"};
  ReceiptFile file{.component = "transformer", .path = "out/demo-int8/transformer/x.safetensors"};
  for (std::size_t i = 0; i < errors.size(); ++i) file.report.layers.push_back(layer("layers." + std::to_string(i) + ".attention.o", errors[i]));
  file.report.layers.push_back(layer("final_layer.linear", 0.5, false));  // kept: does not count
  InputStatistics input;
  const std::vector<float> row{1, -2, 40, 0.5};
  input.add_row(row.data(), 4);
  file.inputs["layers.0.attention.o"] = summarize(input);
  receipt.files.push_back(file);
  ReceiptPicture picture{.prompt = "two <b>stars</b> & \"more\"", .seed = 3, .before = grey(100), .after = grey(after)};
  picture.difference = compare_pictures(picture.before, picture.after);
  receipt.pictures.push_back(picture);
  return receipt;
}

TEST(Judgement, every_limit_is_felt) {
  EXPECT_EQ(receipt_of({0.01, 0.03}).judge().verdict, Verdict::good);
  EXPECT_EQ(receipt_of({0.01, 0.031}).judge().verdict, Verdict::check);
  EXPECT_EQ(receipt_of({0.15, 0.01}).judge().verdict, Verdict::check);
  EXPECT_EQ(receipt_of({0.151, 0.01}).judge().verdict, Verdict::bad);
  EXPECT_EQ(receipt_of({0.01}, 30).judge().verdict, Verdict::bad);    // flat 100 against 30: (2·100·30 + 6.5) / (100² + 30² + 6.5) = 0.55
  EXPECT_EQ(receipt_of({0.01}, 50).judge().verdict, Verdict::check);  // 0.80
}

TEST(Judgement, what_was_not_measured_is_not_good) {
  EXPECT_EQ(receipt_of({}).judge().verdict, Verdict::check);
  EXPECT_EQ(receipt_of({-1}).judge().verdict, Verdict::check);
  Receipt receipt = receipt_of({0.01});
  receipt.pictures.clear();
  EXPECT_EQ(receipt.judge().verdict, Verdict::check);
  EXPECT_EQ(receipt.judge().reasons.size(), 2u);
}

TEST(Page, holds_everything_itself) {
  const std::string page = receipt_page(receipt_of({0.01, 0.02}));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("href")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  std::size_t pictures = 0;
  for (std::size_t at = page.find("src=\""); at != std::string::npos; at = page.find("src=\"", at + 1)) {
    EXPECT_EQ(page.substr(at, 27), "src=\"data:image/png;base64,");
    ++pictures;
  }
  EXPECT_EQ(pictures, 3u);
  EXPECT_THAT(page, HasSubstr("src=\"data:image/png;base64," + base64(encode_png(grey(100)))));
}

TEST(Page, what_comes_from_outside_stays_text) {
  const std::string page = receipt_page(receipt_of({0.01}));
  EXPECT_THAT(page, HasSubstr("two &lt;b&gt;stars&lt;/b&gt; &amp; &quot;more&quot;"));
  EXPECT_THAT(page, Not(HasSubstr("<b>stars")));
}

TEST(Page, names_every_layer_the_verdict_and_its_rule) {
  const Receipt receipt = receipt_of({0.01, 0.2});
  const std::string page = receipt_page(receipt);
  EXPECT_THAT(page, HasSubstr("class=\"verdict bad\""));
  EXPECT_THAT(page, HasSubstr(html::escape(VerdictRule().text())));
  for (const QuantizedLayer& one : receipt.files[0].report.layers) EXPECT_THAT(page, HasSubstr("<code>" + one.module + "</code>"));
  EXPECT_LT(page.rfind("<code>layers.1.attention.o"), page.rfind("<code>layers.0.attention.o"));  // worst first
  EXPECT_EQ(page, receipt_page(receipt));
}

TEST(Page, an_empty_receipt_is_a_page_too) { EXPECT_THAT(receipt_page(Receipt{.source = "a", .output = "b"}), HasSubstr("class=\"verdict check\"")); }

TEST(ReportJson, says_the_same) {
  const Json json = parse_json(receipt_json(receipt_of({0.01, 0.02})), "report");
  EXPECT_EQ(json.at("verdict"), "good");
  const Json& layers = json.at("files")[0].at("layers");
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_DOUBLE_EQ(layers[1].at("output_error").get<double>(), 0.02);
  EXPECT_NEAR(layers[1].at("output_snr_db").get<double>(), 33.979, 1e-3);
  EXPECT_EQ(layers[0].at("input").at("worst_channel"), 2);
  EXPECT_TRUE(json.at("pictures")[0].at("psnr_db").is_null());  // no difference
  EXPECT_DOUBLE_EQ(json.at("pictures")[0].at("ssim").get<double>(), 1);
}

TEST(Base64, the_examples_of_its_description) {
  const auto of = [](const std::string& text) { return base64(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("f"), "Zg==");
  EXPECT_EQ(of("fo"), "Zm8=");
  EXPECT_EQ(of("foo"), "Zm9v");
  EXPECT_EQ(of("foob"), "Zm9vYg==");
  EXPECT_EQ(of("fooba"), "Zm9vYmE=");
  EXPECT_EQ(of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(of("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace octavo
