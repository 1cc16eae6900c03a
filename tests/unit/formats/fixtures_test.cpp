// Every dialect of the tiny golden models, as tools/make_format_fixtures.py wrote them a moment ago by each format's published rule in numpy:
// the weights must come out equal to the last bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/safetensors.h"
#include "weights/dialect.h"
#include "weights/weight_file.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

fs::path fixtures() { return OCTAVO_FORMAT_FIXTURES; }

struct Dialect {
  std::string name;
  std::string written_by;   // StoredLinear::dialect of its quantised layers
  std::string described{};  // of one layer that is quantised
  bool has_remarks = false;
};

void PrintTo(const Dialect& dialect, std::ostream* out) { *out << dialect.name; }

const std::vector<Dialect>& dialects() {
  static const std::vector<Dialect> list{
      {"bf16_fused", "plain", "bf16"},
      {"f16_fused", "plain", "f16"},
      {"f32_split", "plain", "f32"},
      {"bf16_prefix_model", "plain", "bf16"},
      {"bf16_prefix_short", "plain", "bf16"},
      {"bf16_sharded", "plain", "bf16"},
      {"fp8_row", "FP8 with weight_scale", "fp8, row scales"},
      {"fp8_column", "FP8 with weight_scale", "fp8, row scales"},
      {"fp8_one", "FP8 with weight_scale", "fp8, one scale"},
      {"fp8_scalar", "FP8 with weight_scale", "fp8, one scale"},
      {"fp8_comfy", "ComfyUI fp8_scaled", "fp8, one scale"},
      {"fp8_comfy_older", "ComfyUI fp8_scaled, older", "fp8, one scale"},
      {"fp8_cast", "FP8 without scale", "fp8, one scale"},
      {"nf4", "NF4 of bitsandbytes", "nf4"},
      {"nf4_nested", "NF4 of bitsandbytes", "nf4, nested scales"},
      {"nf4_split", "NF4 of bitsandbytes", "nf4"},
      {"int8_scalar", "ComfyUI int8_tensorwise", "int8, one scale"},
      {"int8_row", "ComfyUI int8_tensorwise", "int8, row scales"},
      {"int8_convrot", "ComfyUI int8_tensorwise", "int8, row scales, rotated by 16"},
      {"int8_convrot_row", "ComfyUI int8_tensorwise", "int8, row scales, rotated by 16"},
      {"int8_convrot_scalar", "ComfyUI int8_tensorwise", "int8, one scale, rotated by 16"},
      {"int8_convrot_256", "ComfyUI int8_tensorwise", "int8, row scales, rotated by 256"},
      {"int8_fast", "INT8-Fast", "int8, row scales, rotated by 64"},
      {"lightx2v", "INT8 with weight_scale", "int8, row scales"},
      {"int8_header_only", "ComfyUI int8_tensorwise", "int8, row scales, rotated by 16"},
      {"int8_header_lies", "ComfyUI int8_tensorwise", "int8, row scales, rotated by 16", true},
      {"w8a8_smooth", "W8A8 with wq and ws", "int8, row scales, smoothed"},
      {"w8a8_smooth_inverse", "W8A8 with wq and ws", "int8, row scales, smoothed"},
      {"gguf_q8_0", "GGUF", "q8_0"},
      {"gguf_q4_0", "GGUF", "q4_0"},
      {"gguf_q4_k", "GGUF", "q4_k"},
      {"gguf_f16", "plain", "f16"},
      {"gguf_bf16", "plain", "bf16"},
  };
  return list;
}

Json component_list(const std::string& name) {
  const Json manifest = read_json(fixtures() / "manifest.json");
  for (const Json& dialect : manifest["dialects"]) {
    if (dialect["name"] == name) return dialect["components"];
  }
  return {};
}

// All files of a component, and their tensors under the names that the model will ask for.
struct Component {
  std::vector<WeightFile> files{};
  Projections found{};

  explicit Component(const fs::path& folder_or_file, const std::string& prefix) {
    std::vector<StoredTensor> tensors;
    std::map<std::string, std::string> metadata;
    if (fs::is_regular_file(folder_or_file)) {
      files.emplace_back(folder_or_file);
    } else {
      for (const fs::directory_entry& entry : fs::directory_iterator(folder_or_file)) {
        if (entry.path().extension() == ".safetensors" || entry.path().extension() == ".gguf") files.emplace_back(entry.path());
      }
    }
    for (const WeightFile& file : files) {
      for (StoredTensor tensor : file.tensors()) {
        if (!tensor.name.starts_with(prefix)) continue;
        tensor.name.erase(0, prefix.size());
        tensors.push_back(tensor);
      }
      metadata.insert(file.metadata().begin(), file.metadata().end());
    }
    found = find_projections(tensors, metadata);
  }
};

class EveryDialect : public ::testing::TestWithParam<Dialect> {};
INSTANTIATE_TEST_SUITE_P(, EveryDialect, ::testing::ValuesIn(dialects()), [](const auto& i) { return i.param.name; });

void expect_equal_weights(const StoredLinear& linear, const TensorView& expected) {
  ASSERT_EQ(linear.problem, "");
  ASSERT_EQ(linear.shape, expected.shape);
  const auto bytes = std::size_t(expected.shape.elements()) * sizeof(float);
  std::vector<float> whole(std::size_t(expected.shape.elements()));
  decode_rows(linear, 0, linear.out_features(), whole.data());
  EXPECT_EQ(std::memcmp(whole.data(), expected.data, bytes), 0) << "the whole matrix at once";
  // Rows on their own: block formats whose blocks cross rows must not notice.
  std::vector<float> row(std::size_t(linear.in_features()));
  for (std::int64_t n = 0; n < linear.out_features(); ++n) {
    decode_rows(linear, n, 1, row.data());
    ASSERT_EQ(std::memcmp(row.data(), expected.row<float>(n), row.size() * sizeof(float)), 0) << "row " << n;
  }
}

TEST_P(EveryDialect, gives_the_weights_of_its_rule_to_the_last_bit) {
  const Dialect& dialect = GetParam();
  const SafetensorsFile expected(fixtures() / dialect.name / "expected.safetensors");
  const Json components = component_list(dialect.name);
  ASSERT_FALSE(components.empty());
  int compared = 0, described = 0;
  for (const Json& entry : components) {
    const auto component = entry["component"].get<std::string>();
    const bool is_shared_file = entry.contains("path");
    const fs::path path = is_shared_file ? fixtures() / entry["path"].get<std::string>() : fixtures() / dialect.name / component;
    Component files(path, is_shared_file ? entry["branch"].get<std::string>() + "." : entry["prefix"].get<std::string>());
    if (!dialect.has_remarks) {
      EXPECT_THAT(files.found.remarks, IsEmpty());
    }
    for (auto& [module, linear] : files.found.linears) {
      const std::string name = component + "/" + module;
      if (expected.find(name) == nullptr) continue;  // embeddings, and the text encoder's names in GGUF
      SCOPED_TRACE(name);
      if (dialect.name == "w8a8_smooth_inverse" && linear.smoothing != Smoothing::none) linear.smoothing = Smoothing::multiply;
      expect_equal_weights(linear, expected.tensor(name));
      ++compared;
      if (describe(linear) != dialect.described) continue;
      EXPECT_EQ(linear.dialect, dialect.written_by);
      ++described;
    }
  }
  EXPECT_GE(compared, 2 * 17);  // both branches: 5 linears of 2 layers, 2 modulations, 7 around them, at the least
  EXPECT_GE(described, 2);
}

TEST(Fixtures, every_written_dialect_is_tested) {
  std::vector<std::string> written, tested;
  const Json manifest = read_json(fixtures() / "manifest.json");
  for (const Json& dialect : manifest["dialects"]) written.push_back(dialect["name"].get<std::string>());
  for (const Dialect& dialect : dialects()) tested.push_back(dialect.name);
  EXPECT_THAT(tested, ::testing::UnorderedElementsAreArray(written));
}

TEST(Fixtures, a_header_that_lies_is_reported_once) {
  const Component files(fixtures() / "int8_header_lies" / "transformer", "");
  EXPECT_THAT(files.found.remarks, ::testing::Contains(HasSubstr("contradicts")));
}

TEST(Fixtures, the_direction_of_smoothing_is_found_from_the_base_model) {
  const Component base(fixtures() / "fp8_row" / "transformer", "");
  for (const auto& [name, expected] : {std::pair{"w8a8_smooth", Smoothing::divide}, std::pair{"w8a8_smooth_inverse", Smoothing::multiply}}) {
    const Component overlay(fixtures() / name / "ideogram4-int8-w8a8.safetensors", "conditional.");
    int judged = 0;
    for (const auto& [module, linear] : overlay.found.linears) {
      if (linear.smoothing == Smoothing::none) continue;
      const SmoothingVerdict verdict = judge_smoothing(linear, base.found.linears.at(module));
      EXPECT_EQ(verdict.smoothing, expected) << module;
      EXPECT_GT(verdict.correlation, 0.99) << module;
      ++judged;
    }
    EXPECT_GE(judged, 10);
  }
}

}  // namespace
}  // namespace octavo
