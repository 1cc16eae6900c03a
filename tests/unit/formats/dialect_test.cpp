// From names, dtypes and markers to projections: hand-made files of one or two layers, right and wrong.
#include "weights/dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>

#include "octavo/error.h"
#include "quant/quantize.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A file in memory.
class FileInMemory {
 public:
  FileInMemory& add(const std::string& name, const std::string& type, Shape shape, std::size_t bytes) {
    storage_.emplace_back(bytes, std::byte(1));
    tensors_.push_back({name, type, shape, storage_.back()});
    return *this;
  }
  FileInMemory& floats(const std::string& name, Shape shape, const std::vector<float>& values) {
    add(name, "F32", shape, values.size() * sizeof(float));
    std::memcpy(storage_.back().data(), values.data(), values.size() * sizeof(float));
    return *this;
  }
  FileInMemory& codes(const std::string& name, Shape shape) { return add(name, "I8", shape, std::size_t(shape.elements())); }
  FileInMemory& text(const std::string& name, const std::string& value) {
    add(name, "U8", {std::int64_t(value.size())}, value.size());
    std::memcpy(storage_.back().data(), value.data(), value.size());
    return *this;
  }
  FileInMemory& header(const std::string& layers) {
    metadata_["_quantization_metadata"] = layers;
    return *this;
  }
  Projections read() const { return find_projections(tensors_, metadata_); }

 private:
  std::deque<std::vector<std::byte>> storage_{};
  std::vector<StoredTensor> tensors_{};
  std::map<std::string, std::string> metadata_{};
};

FileInMemory int8_file(const std::string& marker = {}) {
  FileInMemory file;
  file.codes("m.weight", {8, 32}).floats("m.weight_scale", {8, 1}, std::vector<float>(8, 0.5f));
  if (!marker.empty()) file.text("m.comfy_quant", marker);
  return file;
}

void expect_problem(const FileInMemory& file, const std::string& part, bool is_unsupported = false) {
  const Projections found = file.read();
  ASSERT_TRUE(found.linears.contains("m"));
  const StoredLinear& linear = found.linears.at("m");
  EXPECT_THAT(linear.problem, HasSubstr(part));
  EXPECT_THAT(linear.problem, HasSubstr("linear 'm'"));
  EXPECT_EQ(linear.is_unsupported, is_unsupported);
  if (is_unsupported) {
    EXPECT_THROW(linear.require_readable("transformer"), Unsupported);
  } else {
    EXPECT_THROW(linear.require_readable("transformer"), DataError);
  }
}

TEST(ModuleOf, endings_are_taken_off_once_and_longest_first) {
  EXPECT_EQ(module_of("a.b.weight"), "a.b");
  EXPECT_EQ(module_of("a.weight_scale"), "a");
  EXPECT_EQ(module_of("a.weight.absmax"), "a");
  EXPECT_EQ(module_of("a.weight.quant_state.bitsandbytes__nf4"), "a");
  EXPECT_EQ(module_of("a.smooth"), "a");
  EXPECT_EQ(module_of("weight.weight"), "weight");
  EXPECT_EQ(module_of(".weight"), ".weight");
  EXPECT_EQ(module_of("layers.0.scale"), "layers.0.scale");
}

TEST(FindProjections, norms_and_biases_are_no_projections) {
  FileInMemory file;
  file.floats("norm.weight", {4}, {1, 1, 1, 1}).floats("m.weight", {2, 2}, {1, 2, 3, 4}).floats("m.bias", {2}, {0, 0});
  const Projections found = file.read();
  ASSERT_EQ(found.linears.size(), 1u);
  EXPECT_EQ(found.linears.at("m").format, LinearFormat::plain);
  EXPECT_THAT(found.companions, IsEmpty());
  EXPECT_THAT(found.remarks, IsEmpty());
}

TEST(FindProjections, trailing_axes_of_one_are_columns) {
  FileInMemory file;
  file.floats("m.weight", {2, 3, 1, 1}, std::vector<float>(6));
  EXPECT_EQ(file.read().linears.at("m").shape, (Shape{2, 3}));
}

TEST(FindProjections, scale_shapes) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{8}, Shape{8, 1}}) {
    FileInMemory file;
    file.codes("m.weight", {8, 32}).floats("m.weight_scale", shape, std::vector<float>(std::size_t(shape.elements()), 0.5f));
    const StoredLinear linear = file.read().linears.at("m");
    EXPECT_EQ(linear.problem, "");
    EXPECT_EQ(std::int64_t(linear.scale.size()), shape.elements());
    EXPECT_EQ(linear.row_scale(7), 0.5f);
  }
}

TEST(FindProjections, scale_of_the_wrong_length) {
  FileInMemory file;
  file.codes("m.weight", {8, 32}).floats("m.weight_scale", {7}, std::vector<float>(7, 0.5f));
  expect_problem(file, "weight is int8 [8, 32] but its scale [7] has 7 entries, not 1 or 8");
}

TEST(FindProjections, scale_that_is_not_finite) {
  FileInMemory file;
  file.codes("m.weight", {2, 4}).floats("m.weight_scale", {2}, {1.0f, std::numeric_limits<float>::infinity()});
  expect_problem(file, "holds inf at 1");
}

TEST(FindProjections, int8_without_scale) {
  FileInMemory file;
  file.codes("m.weight", {8, 32});
  expect_problem(file, "'m.weight_scale' is missing");
}

TEST(FindProjections, markers_of_the_int8_dialects) {
  struct Case {
    std::string marker;
    int group;
    std::string dialect;
  };
  for (const Case& c :
       {Case{"", 0, "INT8 with weight_scale"}, Case{R"({"format":"int8_tensorwise"})", 0, "ComfyUI int8_tensorwise"},
        Case{R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":16})", 16, "ComfyUI int8_tensorwise"},
        Case{R"({"format":"int8_tensorwise","convrot":false,"convrot_groupsize":16})", 0, "ComfyUI int8_tensorwise"},
        Case{R"({"convrot":true,"convrot_groupsize":4,"per_row":true})", 4, "INT8-Fast"}, Case{R"({"convrot":false,"per_row":true})", 0, "INT8-Fast"},
        Case{R"({"format":"int8_tensorwise","params":{"convrot":true,"convrot_groupsize":16}})", 16, "ComfyUI int8_tensorwise"},
        Case{std::string(R"({"format":"int8_tensorwise"})") + std::string(3, '\0'), 0, "ComfyUI int8_tensorwise"}}) {
    const Projections found = int8_file(c.marker).read();
    const StoredLinear& linear = found.linears.at("m");
    EXPECT_EQ(linear.problem, "") << c.marker;
    EXPECT_EQ(linear.rotation_group, c.group) << c.marker;
    EXPECT_EQ(linear.dialect, c.dialect) << c.marker;
    EXPECT_THAT(found.remarks, IsEmpty()) << c.marker;
  }
}

TEST(FindProjections, rotation_group_that_does_not_fit) {
  expect_problem(int8_file(R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":64})"),
                 "rotation group of 64, which does not divide its 32 inputs");
  expect_problem(int8_file(R"({"format":"int8_tensorwise","convrot":true})"), "rotation group of 256, which does not divide");
  for (const char* group : {"0", "-4", "8", "3", "1", "9223372036854775807"}) {
    expect_problem(int8_file(std::string(R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":)") + group + "}"), "a power of 4 was expected");
  }
}

TEST(FindProjections, markers_that_are_broken) {
  expect_problem(int8_file("{\"format\":"), "is not JSON");
  expect_problem(int8_file("[1]"), "is not a JSON object");
  expect_problem(int8_file(R"({"convrot":"yes"})"), "\"convrot\"");
  expect_problem(int8_file(R"({"convrot":true,"convrot_groupsize":"16"})"), "\"convrot_groupsize\"");
  expect_problem(int8_file(R"({"convrot":true,"convrot_groupsize":18446744073709551615})"), "\"convrot_groupsize\"");
  FileInMemory file;
  file.codes("m.weight", {2, 4}).floats("m.weight_scale", {2}, {1, 1}).codes("m.comfy_quant", {4});
  expect_problem(file, "a JSON text in U8 was expected");
}

TEST(FindProjections, formats_that_are_not_known_are_named_with_those_that_are) {
  expect_problem(int8_file(R"({"format":"int8_blockwise","group_size":128})"), "int8_blockwise", true);
  FileInMemory nvfp4;
  nvfp4.add("m.weight", "U8", {4, 8}, 32).text("m.comfy_quant", R"({"format":"nvfp4"})");
  expect_problem(nvfp4, "U8 described as 'nvfp4'", true);
  FileInMemory scb;
  scb.codes("m.weight", {2, 4}).floats("m.SCB", {2}, {1, 1});
  expect_problem(scb, "SCB", true);
  FileInMemory fp4;
  fp4.add("m.weight", "U8", {16, 1}, 16).text("m.weight.quant_state.bitsandbytes__fp4", "{}");
  expect_problem(fp4, "FP4", true);
  FileInMemory e5m2;
  e5m2.add("m.weight", "F8_E5M2", {2, 4}, 8);
  expect_problem(e5m2, "F8_E5M2", true);
  FileInMemory q5;
  q5.add("m.weight", "Q5_K", {1, 256}, 176);
  expect_problem(q5, "Q5_K", true);
  EXPECT_THAT(q5.read().linears.at("m").problem, HasSubstr("Q4_K"));
}

TEST(FindProjections, fp8_without_scale_is_a_plain_cast) {
  FileInMemory file;
  file.add("m.weight", "F8_E4M3", {2, 4}, 8).add("scaled_fp8", "F8_E4M3", {0}, 0);
  const Projections found = file.read();
  EXPECT_EQ(found.linears.at("m").problem, "");
  EXPECT_THAT(found.linears.at("m").scale, ElementsAre(1.0f));
  EXPECT_THAT(found.companions, ElementsAre("scaled_fp8"));
}

TEST(FindProjections, older_fp8_names) {
  FileInMemory file;
  file.add("m.weight", "F8_E4M3", {2, 4}, 8).floats("m.scale_weight", {}, {0.25f}).floats("m.scale_input", {}, {1.0f});
  const Projections found = file.read();
  EXPECT_THAT(found.linears.at("m").scale, ElementsAre(0.25f));
  EXPECT_THAT(found.companions, ElementsAre("m.scale_input", "m.scale_weight"));
}

TEST(FindProjections, header_alone_is_believed) {
  const Projections found = int8_file().header(R"({"layers":{"m":{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":16}}})").read();
  EXPECT_EQ(found.linears.at("m").rotation_group, 16);
  EXPECT_THAT(found.remarks, IsEmpty());
}

TEST(FindProjections, header_that_contradicts_the_tensors_loses_with_a_remark) {
  const Projections found = int8_file(R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":16})")
                                .header(R"({"layers":{"m":{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":256}}})")
                                .read();
  EXPECT_EQ(found.linears.at("m").rotation_group, 16);
  EXPECT_THAT(found.remarks, ElementsAre(HasSubstr("contradicts the tensors of 1 layer (m)")));
}

TEST(FindProjections, broken_headers_are_not_used) {
  for (const char* header : {"{", "[]", "{\"layers\":[]}", "{}"}) {
    const Projections found = int8_file().header(header).read();
    EXPECT_EQ(found.linears.at("m").problem, "") << header;
    EXPECT_THAT(found.remarks, ElementsAre(HasSubstr("not used"))) << header;
  }
}

FileInMemory nf4_file(const std::string& state, std::int64_t packed = 64, std::int64_t scales = 2) {
  FileInMemory file;
  file.add("m.weight", "U8", {packed, 1}, std::size_t(packed)).floats("m.weight.quant_map", {16}, std::vector<float>(16, 0.5f));
  file.floats("m.weight.absmax", {scales}, std::vector<float>(std::size_t(scales), 2.0f)).text("m.weight.quant_state.bitsandbytes__nf4", state);
  return file;
}

TEST(FindProjections, nf4) {
  const StoredLinear linear = nf4_file(R"({"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[4,32]})").read().linears.at("m");
  EXPECT_EQ(linear.problem, "");
  EXPECT_EQ(linear.shape, (Shape{4, 32}));
  EXPECT_EQ(describe(linear), "nf4");
}

TEST(FindProjections, nf4_that_does_not_add_up) {
  expect_problem(nf4_file(R"({"blocksize":64,"shape":[4,33]})"), "needs 66 U8");
  expect_problem(nf4_file(R"({"blocksize":32,"shape":[4,32]})"), "needs 4 F32");
  expect_problem(nf4_file(R"({"blocksize":64})"), "\"shape\"");
  expect_problem(nf4_file(R"({"blocksize":64,"shape":[4,-32]})"), "\"shape\"");
  expect_problem(nf4_file(R"({"blocksize":64,"shape":[4,32,1]})"), "\"shape\"");
  expect_problem(nf4_file(R"({"blocksize":64,"shape":[1099511627776,32]})"), "\"shape\"");
  expect_problem(nf4_file(R"({"blocksize":0,"shape":[4,32]})"), "blocksize");
  expect_problem(nf4_file(R"({"quant_type":"af4","blocksize":64,"shape":[4,32]})"), "af4", true);
  FileInMemory nested;
  nested.add("m.weight", "U8", {64, 1}, 64).floats("m.weight.quant_map", {16}, std::vector<float>(16)).add("m.weight.absmax", "U8", {2}, 2);
  nested.text("m.weight.quant_state.bitsandbytes__nf4", R"({"blocksize":64,"shape":[4,32]})");
  expect_problem(nested, "nested_absmax' is missing");
}

TEST(FindProjections, smoothed_and_protected_layers) {
  FileInMemory file;
  file.codes("m.wq", {2, 4}).floats("m.ws", {2}, {1, 2}).floats("m.smooth", {4}, {1, 2, 4, 8}).floats("p.weight", {1, 2}, {1, 2});
  const Projections found = file.read();
  const StoredLinear& linear = found.linears.at("m");
  EXPECT_EQ(linear.problem, "");
  EXPECT_EQ(linear.smoothing, Smoothing::divide);
  EXPECT_EQ(describe(linear), "int8, row scales, smoothed");
  EXPECT_EQ(found.linears.at("p").format, LinearFormat::plain);
}

TEST(FindProjections, smoothing_vectors_that_cannot_be) {
  FileInMemory length;
  length.codes("m.wq", {2, 4}).floats("m.ws", {2}, {1, 2}).floats("m.smooth", {3}, {1, 2, 4});
  expect_problem(length, "its smoothing vector [3] has 3 entries, not 4");
  FileInMemory zero;
  zero.codes("m.wq", {2, 4}).floats("m.ws", {2}, {1, 2}).floats("m.smooth", {4}, {1, 0, 4, 1});
  expect_problem(zero, "holds a zero");
  FileInMemory scales;
  scales.codes("m.wq", {2, 4}).floats("m.smooth", {4}, {1, 1, 4, 1});
  expect_problem(scales, "'m.ws' is missing");
}

TEST(JudgeSmoothing, finds_the_direction_and_says_how_sure_it_is) {
  constexpr std::int64_t kRows = 6, kColumns = 32;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> w(kRows * kColumns), smooth(kColumns), inverse(kColumns);
  for (float& x : w) x = normal(random);
  for (std::size_t k = 0; k < kColumns; ++k) smooth[k] = std::exp2(normal(random)), inverse[k] = 1.0f / smooth[k];
  std::vector<std::int8_t> q(w.size());
  StoredLinear smoothed{.module = "m", .format = LinearFormat::s8, .shape = {kRows, kColumns}, .codes = reinterpret_cast<const std::byte*>(q.data())};
  for (std::int64_t n = 0; n < kRows; ++n) {
    std::vector<float> row(w.begin() + n * kColumns, w.begin() + (n + 1) * kColumns);
    for (std::size_t k = 0; k < kColumns; ++k) row[k] *= smooth[k];
    smoothed.scale.push_back(quantize_weight_row(row.data(), kColumns, q.data() + n * kColumns));
  }
  const StoredLinear reference{.module = "m", .shape = {kRows, kColumns}, .codes = reinterpret_cast<const std::byte*>(w.data())};
  for (const auto& [vector, expected] : {std::pair{smooth, Smoothing::divide}, std::pair{inverse, Smoothing::multiply}}) {
    smoothed.smooth = vector;
    const SmoothingVerdict verdict = judge_smoothing(smoothed, reference);
    EXPECT_EQ(verdict.smoothing, expected);
    EXPECT_GT(verdict.correlation, 0.99);
  }
  const StoredLinear other{.module = "m", .shape = {kRows, kColumns + 1}, .codes = reference.codes};
  EXPECT_THROW(judge_smoothing(smoothed, other), DataError);
}

TEST(DecodeRows, a_matrix_at_an_odd_address) {
  std::vector<std::byte> bytes(1 + 8);
  for (std::uint16_t i = 0; i < 4; ++i) {
    const std::uint16_t bits = to_bf16(float(i)).bits;
    std::memcpy(bytes.data() + 1 + 2 * i, &bits, 2);
  }
  const StoredLinear linear{.module = "m", .shape = {2, 2}, .codes = bytes.data() + 1, .dtype = DType::bf16};
  std::vector<float> w(2);
  decode_rows(linear, 1, 1, w.data());
  EXPECT_THAT(w, ElementsAre(2.0f, 3.0f));
}

}  // namespace
}  // namespace octavo
