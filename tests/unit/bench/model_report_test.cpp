#include "api/model_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "octavo/error.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ModelRun some_run() {
  ModelRun run;
  run.model = "some <model>";
  run.precision = "w8a8";
  run.caps.name = "GPU \"1\" & co";
  run.caps.sm = 90;
  run.caps.sm_count = 132;
  run.caps.clock_khz = 1980000;
  run.caps.memory_bytes = std::int64_t(141) << 30;
  run.size = 1024;
  run.text = 256;
  run.steps = 48;
  run.load_text_seconds = 1.5;
  run.encode = {0.25, 0.24, 0.26};
  run.prepare_seconds = 0.05;
  run.conditional = {0.077, 0.076, 0.078};
  run.unconditional = {0.072, 0.071, 0.073};
  run.step = {0.15, 0.149, 0.151};
  run.steps_measured = 12;
  run.decode = {0.1, 0.09, 0.11};
  run.graph_launches = 2;
  run.kernels_recorded = 700;
  run.peak_image_bytes = 21'000'000'000;
  run.used_before_bytes = 600'000'000;
  run.state_before = "1980 MHz";
  run.rows = {{.part = "conditional",
               .op = "linear",
               .name = "layers.*.attention.<qkv>",
               .kernel = "tile_1",
               .math = "s8",
               .out = "bf16",
               .m = 4352,
               .n = 13824,
               .k = 4608,
               .count = 34,
               .macs = 4352.0 * 13824 * 4608,
               .bytes = 2e8,
               .seconds = 0.0005,
               .limit_seconds = 0.00026,
               .limit = "tensor cores"},
              {.part = "conditional",
               .op = "attention",
               .kernel = "wgmma",
               .math = "bf16",
               .out = "bf16",
               .m = 4352,
               .n = 4352,
               .k = 256,
               .count = 34,
               .macs = 2.0 * 4352 * 4352 * 4608,
               .bytes = 1.6e8,
               .seconds = 0.001,
               .limit_seconds = 0.0005,
               .limit = "tensor cores"},
              {.part = "guidance",
               .op = "guided_step",
               .math = "f32",
               .out = "f32",
               .m = 4096,
               .k = 128,
               .count = 1,
               .bytes = 8e6,
               .seconds = 5e-6,
               .limit_seconds = 2e-6,
               .limit = "memory"},
              {.part = "vae",
               .op = "conv2d",
               .name = "decoder.conv_in",
               .math = "bf16",
               .out = "bf16",
               .m = 16384,
               .n = 512,
               .k = 288,
               .count = 1,
               .macs = 1e9,
               .bytes = 1e7,
               .seconds = 1e-4,
               .limit_seconds = 1e-5,
               .limit = "tensor cores"}};
  return run;
}

TEST(ModelReport, json_comes_back_as_it_was) {
  const ModelRun run = some_run();
  const Json json = report_json(run);
  const ModelRun back = run_from_json(parse_json(json.dump(), "text"), "text");
  EXPECT_EQ(report_json(back).dump(), json.dump());
  EXPECT_EQ(back.caps.name, run.caps.name);
  EXPECT_EQ(back.caps.memory_bytes, run.caps.memory_bytes);
  EXPECT_EQ(back.image_seconds(), run.image_seconds());
  ASSERT_EQ(back.rows.size(), run.rows.size());
  EXPECT_EQ(back.rows[1].macs, run.rows[1].macs);
  EXPECT_NEAR(json.at("image_s").get<double>(), 0.25 + 0.05 + 48 * 0.15 + 0.1, 1e-12);
}

TEST(ModelReport, json_of_something_else) {
  for (const char* text : {"{}", "[]", "3", R"({"model": 4})"}) {
    try {
      run_from_json(parse_json(text, "text"), "file 'x.json'");
      FAIL() << text;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("file 'x.json'"));
      EXPECT_THAT(error.what(), HasSubstr("bench model --json"));
    }
  }
}

TEST(ModelReport, text_says_what_was_multiplied_and_what_counted) {
  const std::string text = report_text(some_run());
  for (const char* part : {"1024x1024", "256 text tokens", "48 steps 7.20 (measured on 12 and multiplied)", "0 allocations, 0 waits, 0 host copies", "no PNG",
                           "tile_1", "4352x13824x4608", "52.0%", "random weights"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_LT(text.find("attention 4352x4352x256"), text.find("layers.*.attention.<qkv>")) << "the longest first";
  EXPECT_THAT(text, HasSubstr(" 11.3%    17.000    34"));  // 34 x 0.5 ms of 150 ms
}

TEST(ModelReport, page_stands_alone_and_escapes_what_it_is_told) {
  const std::vector<ModelRun> runs{some_run()};
  const std::string page = report_page(runs);
  EXPECT_THAT(page, HasSubstr("GPU &quot;1&quot; &amp; co"));
  EXPECT_THAT(page, HasSubstr("layers.*.attention.&lt;qkv&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<qkv>")));
  EXPECT_THAT(page, Not(HasSubstr("<model>")));
  for (const char* other : {"http:", "https:", "src=", "href=", "<script", "@import", "url("}) EXPECT_THAT(page, Not(HasSubstr(other)));
  EXPECT_THAT(page, HasSubstr("<title>conditional: attention"));
  // Every element that is opened is closed.
  for (const char* element : {"html", "head", "body", "svg", "g", "title", "table", "tr", "td", "th", "dl", "dt", "dd", "h2", "style"}) {
    const std::string open = std::string("<") + element + "[ >]", close = std::string("</") + element + ">";
    const auto count = [&](const std::string& pattern) {
      const std::regex regex(pattern);
      return std::distance(std::sregex_iterator(page.begin(), page.end(), regex), std::sregex_iterator());
    };
    EXPECT_EQ(count(open), count(close)) << element;
  }
}

// The bar of the step is as wide as its pieces together, gaps included.
TEST(ModelReport, bars_fill_their_width) {
  const std::vector<ModelRun> runs{some_run()};
  const std::string page = report_page(runs);
  std::size_t at = page.find("<h3>Step,");
  const std::size_t end = page.find("</svg>", at);
  double right = 0;
  for (at = page.find("<rect x=\"", at); at < end; at = page.find("<rect x=\"", at + 1)) {
    const double x = std::strtod(page.c_str() + at + 9, nullptr), width = std::strtod(page.c_str() + page.find("width=\"", at) + 7, nullptr);
    EXPECT_NEAR(x, right, 0.02);
    right = x + width;
  }
  EXPECT_NEAR(right, 1000, 0.05);
}

}  // namespace
}  // namespace octavo
