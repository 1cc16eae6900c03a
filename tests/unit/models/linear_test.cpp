#include "nn/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "golden/random_model.h"
#include "nn/rows.h"
#include "octavo/error.h"

namespace octavo::nn {
namespace {

using golden::CpuContext;
using golden::TemporaryFolder;

// Two matrices "a" [5, 12] and "b" [7, 12] and their stack "ab" [12, 12], with biases.
class LinearTest : public ::testing::Test {
 protected:
  TemporaryFolder temporary{};
  CpuContext cpu{};
  Tensor x = golden::random_rows({9, 12}, 3);

  LinearTest() {
    const std::vector<ParamSpec> specs{{.name = "a.weight", .shape = {5, 12}},
                                       {.name = "a.bias", .shape = {5}, .role = ParamRole::bias},
                                       {.name = "b.weight", .shape = {7, 12}},
                                       {.name = "b.bias", .shape = {7}, .role = ParamRole::bias}};
    golden::write_random_checkpoint(temporary.path() / "parts.safetensors", specs, 5);
    golden::EditableCheckpoint checkpoint(temporary.path() / "parts.safetensors");
    const auto stack = [&](const std::string& kind, Shape shape) {
      const TensorView whole = checkpoint.add("ab." + kind, DType::bf16, shape);
      const TensorView a = checkpoint.tensors().at("a." + kind), b = checkpoint.tensors().at("b." + kind);
      std::memcpy(whole.data, a.data, a.bytes());
      std::memcpy(whole.as<std::byte>() + a.bytes(), b.data, b.bytes());
    };
    stack("weight", {12, 12});
    stack("bias", {12});
    checkpoint.write(temporary.path() / "model.safetensors");
  }
  WeightStore store() const { return {temporary.path(), "test"}; }
  Tensor run(const Linear& linear, const Precision& precision, const Epilogue& epilogue = {}) {
    const ArenaScope scope(cpu.scratch);
    Tensor y(DType::f32, {x.shape()[0], linear.out_features()});
    linear.forward(cpu, as_projection_input(cpu, precision, x), epilogue, y);
    return y;
  }
};

TEST_F(LinearTest, a_weight_beyond_float16_is_an_error_that_names_its_tensor) {
  const auto load = [&](float largest, const Precision& precision) {
    golden::TemporaryFolder folder;
    golden::EditableCheckpoint checkpoint(temporary.path() / "parts.safetensors");
    const Tensor w = to_float_tensor(checkpoint.tensors().at("a.weight"));
    const TensorView changed = checkpoint.add("a.weight", DType::f32, w.shape());
    std::memcpy(changed.data, w.as<void>(), w.bytes());
    changed.as<float>()[17] = largest;
    checkpoint.write(folder.path() / "model.safetensors");
    const WeightStore weights(folder.path(), "test");
    return Linear(cpu, weights, {{"a"}}, true, precision.weight).parts()[0].weight.dtype;
  };
  EXPECT_EQ(load(65504.0f, precision::fp16), DType::f16);
  EXPECT_EQ(load(-65519.0f, precision::fp16), DType::f16);  // rounds to 65504
  EXPECT_EQ(load(1e6f, precision::bf16), DType::bf16);
  EXPECT_EQ(load(INFINITY, precision::fp16), DType::f16);  // as in the file: the step that meets it says so
  try {
    load(-70000.0f, precision::fp16);
    FAIL() << "a weight became infinite";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "test 'a.weight': holds -70000, beyond 65504, the largest number of fp16; use --precision bf16, f32 or w8a8");
  }
}

// y[m, n] written out, in float64.
TEST_F(LinearTest, parts_stand_side_by_side_in_the_output) {
  const WeightStore weights = store();
  const Linear both(cpu, weights, {{"a"}, {"b"}}, true, precision::f32.weight);
  ASSERT_EQ(both.out_features(), 12);
  ASSERT_EQ(both.in_features(), 12);
  const Tensor w = to_float_tensor(weights.get("ab.weight")), bias = to_float_tensor(weights.get("ab.bias"));
  const Tensor y = run(both, precision::f32);
  for (int m = 0; m < 9; ++m) {
    for (int n = 0; n < 12; ++n) {
      double sum = bias.as<float>()[n], size = std::fabs(sum);
      for (int k = 0; k < 12; ++k) {
        sum += double(x.as<float>()[m * 12 + k]) * w.as<float>()[n * 12 + k];
        size += std::fabs(double(x.as<float>()[m * 12 + k]) * w.as<float>()[n * 12 + k]);
      }
      EXPECT_NEAR(y.as<float>()[m * 12 + n], sum, 13 * 6e-8 * size);  // 13 roundings of a float32 sum
    }
  }
}

TEST_F(LinearTest, a_stack_taken_in_parts_gives_the_bits_of_the_parts) {
  const WeightStore weights = store();
  for (const Precision& precision : precision::all) {
    const Linear split(cpu, weights, {{"a"}, {"b"}}, true, precision.weight);
    const Linear fused(cpu, weights, {{"ab", 5}, {"ab"}}, true, precision.weight);
    EXPECT_EQ(fused.parts().size(), precision.activation.is_quantized() ? 1u : 2u);
    EXPECT_TRUE(golden::same_bits(run(split, precision), run(fused, precision))) << precision.name;
  }
}

TEST_F(LinearTest, epilogue_vectors_and_residual_are_cut_to_the_parts) {
  const WeightStore weights = store();
  const Tensor gate = golden::random_rows({1, 12}, 8), residual = golden::random_rows({9, 12}, 9);
  const Epilogue epilogue{.activation = Activation::silu, .mod_gate = gate.view().reshaped({12}), .residual = residual};
  const Linear split(cpu, weights, {{"a"}, {"b"}}, true, precision::f32.weight), whole(cpu, weights, {{"ab"}}, true, precision::f32.weight);
  EXPECT_LE(golden::relative_l2(run(split, precision::f32, epilogue), run(whole, precision::f32, epilogue)), 1e-6);
}

TEST_F(LinearTest, quantised_codes_and_scales_are_those_of_the_rows) {
  const WeightStore weights = store();
  const Linear linear(cpu, weights, {{"a"}, {"b"}}, true, precision::w8a8.weight);
  ASSERT_EQ(linear.parts().size(), 1u);
  const LinearWeights& part = linear.parts()[0];
  const Tensor rows = to_float_tensor(weights.get("ab.weight"));
  for (int n = 0; n < 12; ++n) {
    std::vector<std::int8_t> codes(12);
    EXPECT_EQ(part.scale->as<float>()[n], quantize_weight_row(rows.as<float>() + n * 12, 12, codes.data()));
    EXPECT_EQ(std::memcmp(part.weight.row<std::int8_t>(n), codes.data(), 12), 0);
  }
  EXPECT_EQ(linear.owned_bytes(), 12 * 12 + 12 * 4 + 12 * 4);  // codes, scales, bias
  EXPECT_EQ(linear.mapped_bytes(), 0);
}

TEST_F(LinearTest, a_constant_row_may_ride_in_the_bias) {
  const WeightStore weights = store();
  Linear with(cpu, weights, {{"a"}}, true, {});
  const Linear without(cpu, weights, {{"a"}}, true, {});
  const Tensor row = golden::random_rows({5}, 4);
  with.add_to_bias(cpu, row);
  const Tensor a = run(with, precision::f32), b = run(without, precision::f32);
  for (int i = 0; i < 45; ++i) EXPECT_NEAR(a.as<float>()[i], b.as<float>()[i] + row.as<float>()[i % 5], 1e-6);
  Linear two(cpu, weights, {{"a"}, {"b"}}, true, {});
  EXPECT_THROW(two.add_to_bias(cpu, row), InternalError);
}

TEST_F(LinearTest, formats_that_are_not_built_say_so) {
  const WeightStore weights = store();
  const NumberFormat per_tensor{.storage = DType::s8, .granularity = Granularity::per_tensor, .group = 0};
  EXPECT_THROW(Linear(cpu, weights, {{"a"}}, true, per_tensor), Unsupported);
}

}  // namespace
}  // namespace octavo::nn
