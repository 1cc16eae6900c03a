// The text encoder against the reference. Both tiny towers: 36 layers, width 32, 4 query heads on 2 key/value heads.
#include "models/qwen3_vl/text_encoder.h"

#include "golden/golden.h"
#include "golden/temporary_model.h"

namespace octavo::qwen3_vl {
namespace {

using golden::CpuContext;
using golden::Reference;
namespace fs = std::filesystem;

class TextEncoderGolden : public ::testing::TestWithParam<std::string> {
 protected:
  Reference reference{GetParam()};

  Tensor encode(CpuContext& cpu, const Precision& precision, int prompt = 0) const {
    const TextEncoder encoder(cpu, reference.folder / "text_encoder", Reference::taps(), precision);
    return encoder.encode(cpu, reference.tokens(prompt));
  }
};
INSTANTIATE_TEST_SUITE_P(Reference, TextEncoderGolden, ::testing::ValuesIn(golden::reference_names()), golden::test_name);

TEST_P(TextEncoderGolden, float32_features_equal_the_reference) {
  CpuContext cpu;
  const Tensor features = encode(cpu, precision::f32);
  const Tensor expected = reference.features();
  ASSERT_EQ(features.shape(), expected.shape());
  const double error = golden::relative_l2(features, expected);
  std::printf("%s text_features: relative L2 %.2e, max %.2e\n", GetParam().c_str(), error, golden::max_error(features, expected));
  EXPECT_LE(error, 1e-5);  // issue 2, A2: 36 layers of float32 rounding
}

TEST_P(TextEncoderGolden, plain_bodies_equal_the_reference_too) {
  CpuContext cpu(2, true);
  EXPECT_LE(golden::relative_l2(encode(cpu, precision::f32), reference.features()), 1e-5);
}

// The three axes carry the same position for text, so padding to the left changes nothing: that the reference pads shows in no row.
TEST_P(TextEncoderGolden, reference_rows_in_front_are_padding) {
  const TensorView padded = reference.expected.tensor("text_features");
  const std::int64_t padding = padded.shape[-2] - std::int64_t(reference.tokens(0).size());
  ASSERT_GT(padding, 0);
  for (std::int64_t i = 0; i < padding * padded.shape[-1]; ++i) ASSERT_EQ(padded.as<float>()[i], 0.0f);
}

TEST_P(TextEncoderGolden, same_bits_for_any_number_of_threads) {
  for (const Precision& precision : {precision::f32, precision::bf16, precision::fp16}) {
    CpuContext one(1), three(3);
    EXPECT_TRUE(golden::same_bits(encode(one, precision), encode(three, precision))) << precision.name;
  }
}

// Causal attention: what comes later cannot change what came before.
TEST_P(TextEncoderGolden, a_prefix_has_the_same_features) {
  CpuContext cpu;
  const TextEncoder encoder(cpu, reference.folder / "text_encoder", Reference::taps(), precision::f32);
  const std::vector<std::int32_t> ids = reference.tokens(0);
  const Tensor whole = encoder.encode(cpu, ids);
  const Tensor part = encoder.encode(cpu, std::span(ids).first(7));
  EXPECT_EQ(std::memcmp(whole.as<void>(), part.as<void>(), part.bytes()), 0);
}

// One rounding to bf16 has a relative error of at most 2^-9. A layer rounds six rows on its way into the residual stream, which itself is
// rounded twice; after 36 layers about 36 · 2 independent errors of 2^-9/√3 add up to √72 · 2^-9/√3 = 0.010 relative to the stream's final size.
TEST_P(TextEncoderGolden, bf16_stays_within_accumulated_rounding) {
  CpuContext cpu;
  const double error = golden::relative_l2(encode(cpu, precision::bf16), reference.features());
  std::printf("%s text_features in bf16: relative L2 %.2e\n", GetParam().c_str(), error);
  EXPECT_LE(error, 0.03);  // three times that estimate
  EXPECT_GT(error, 1e-4);  // it did compute in bf16
}

// Half a step of float16 is 2^-12 of a number, an eighth of bf16's, and the residual stream is not rounded at all.
TEST_P(TextEncoderGolden, fp16_is_eight_times_closer_than_bf16) {
  CpuContext cpu;
  const double error = golden::relative_l2(encode(cpu, precision::fp16), reference.features());
  std::printf("%s text_features in fp16: relative L2 %.2e\n", GetParam().c_str(), error);
  EXPECT_LE(error, 0.03 / 8);
  EXPECT_GT(error, 1e-5);
}

// Token rows 2^20 times as large: the residual stream begins and stays far beyond 65504, the norms take the size out again.
TEST_P(TextEncoderGolden, fp16_carries_a_residual_stream_beyond_its_range) {
  golden::TemporaryFolder temporary;
  const fs::path from = reference.folder / "text_encoder", to = temporary.path() / "text_encoder";
  {
    golden::EditableCheckpoint checkpoint(from / "model.safetensors");
    for (auto& [name, view] : checkpoint.tensors()) {
      if (!name.ends_with("embed_tokens.weight")) continue;
      const Tensor table = to_float_tensor(view);
      view = checkpoint.add(name, DType::f32, table.shape());
      for (std::int64_t i = 0; i < table.shape().elements(); ++i) view.as<float>()[i] = 0x1p20f * table.as<float>()[i];
    }
    checkpoint.write(to / "model.safetensors");
    golden::write_config(from, to, [](nlohmann::json&) {});
  }
  CpuContext cpu;
  const auto features = [&](const Precision& precision) { return TextEncoder(cpu, to, Reference::taps(), precision).encode(cpu, reference.tokens(0)); };
  const Tensor exact = features(precision::f32);
  float largest = 0;
  for (std::int64_t i = 0; i < exact.shape().elements(); ++i) largest = std::max(largest, std::fabs(exact.as<float>()[i]));
  EXPECT_GT(largest, 65504.0f);
  EXPECT_LE(golden::relative_l2(features(precision::fp16), exact), 0.03 / 8);
}

TEST_P(TextEncoderGolden, w8a8_leaves_the_text_encoder_in_float32) {
  CpuContext cpu;
  EXPECT_TRUE(golden::same_bits(encode(cpu, precision::w8a8), encode(cpu, precision::f32)));
}

// F[i][h * taps + k]: a tap alone is a column of the whole.
TEST_P(TextEncoderGolden, tap_index_runs_fastest) {
  CpuContext cpu;
  const std::vector<std::int32_t> ids = reference.tokens(1);
  const TextEncoder all(cpu, reference.folder / "text_encoder", Reference::taps(), precision::f32);
  const TextEncoder single(cpu, reference.folder / "text_encoder", {6}, precision::f32);
  const Tensor features = all.encode(cpu, ids);
  const Tensor tap = single.encode(cpu, ids);
  const std::int64_t taps = 13, hidden = all.config().hidden;
  ASSERT_EQ(all.feature_columns(), hidden * taps);
  for (std::int64_t row = 0; row < std::int64_t(ids.size()); ++row) {
    for (std::int64_t h = 0; h < hidden; ++h) ASSERT_EQ(features.as<float>()[(row * hidden + h) * taps + 2], tap.as<float>()[row * hidden + h]);
  }
}

}  // namespace
}  // namespace octavo::qwen3_vl
