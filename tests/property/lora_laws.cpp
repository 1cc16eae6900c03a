// Laws of LoRAs beside a projection: the same as merging them into float weights, and nothing but a sum beside weights of any other format.
#include <gmock/gmock.h>

#include "golden/golden.h"
#include "golden/lora_files.h"
#include "nn/lora.h"
#include "octavo/error.h"
#include "quant/quantize.h"

namespace octavo::nn {
namespace {

using golden::CpuContext;
using golden::same_bits;

constexpr std::int64_t kRows = 9, kIn = 80, kA = 40, kB = 24, kOut = kA + kB;  // rows of x; inputs; outputs of part a, of part b, of both
constexpr std::int64_t kRanks[] = {1, 4, 17, 64, 256};
constexpr float kScale = -0.7f;

// A projection of two parts "a" and "b", as a checkpoint stores it, and a LoRA for it in either spelling.
class LoraLaws : public ::testing::Test {
 protected:
  golden::TemporaryFolder temporary{};
  CpuContext cpu{3};
  Tensor x = golden::random_rows({kRows, kIn}, 3);
  std::vector<LinearPart> parts{{"a"}, {"b"}};
  std::deque<golden::LoraBuilder> builders{};  // terms look into their tensors
  std::deque<WeightStore> stores{};

  LoraLaws() {
    const std::vector<ParamSpec> specs{{.name = "a.weight", .shape = {kA, kIn}}, {.name = "b.weight", .shape = {kB, kIn}}};
    golden::write_random_checkpoint(temporary.path() / "plain" / "model.safetensors", specs, 5);
  }

  // One pair over all outputs, or one for each part.
  std::vector<LoraTerm> terms(std::int64_t rank, bool is_fused, DType dtype = DType::f32) {
    golden::LoraBuilder& builder = builders.emplace_back();
    std::vector<LoraTerm> list;
    const auto add = [&](const std::string& module, std::int64_t first, std::int64_t out, std::uint32_t seed) {
      builder.add_pair(module, out, kIn, rank, seed, dtype);
      list.push_back({.module = module,
                      .down = builder.tensor(module + ".lora_A.weight"),
                      .up = builder.tensor(module + ".lora_B.weight"),
                      .scale = kScale,
                      .first_row = first});
    };
    if (is_fused) {
      add("ab", 0, kOut, 11);
    } else {
      add("a", 0, kA, 21);
      add("b", kA, kB, 31);
    }
    return list;
  }
  const WeightStore& open(const std::string& name) { return stores.emplace_back(temporary.path() / name, "test"); }
  Linear linear(const WeightStore& store, const Precision& precision) { return {cpu, store, parts, false, LinearUse(precision)}; }
  Tensor run(const Linear& base, std::span<const LoraTerm> lora, DType dtype = DType::f32, const Epilogue& epilogue = {}) {
    return run_on(x, base, lora, dtype, epilogue);
  }
  Tensor run_on(const TensorView& rows, const Linear& base, std::span<const LoraTerm> lora, DType dtype = DType::f32, const Epilogue& epilogue = {}) {
    Tensor y(dtype, {rows.rows(), kOut});
    LoraLinear(base, lora).forward(cpu, rows, epilogue, y);
    return y;
  }
  // The weights of all parts in float32, with the LoRA in them.
  Tensor merged(const WeightStore& store, std::span<const LoraTerm> lora) const {
    Tensor w(DType::f32, {kOut, kIn});
    decode_rows(store.linear("a"), 0, kA, w.as<float>());
    decode_rows(store.linear("b"), 0, kB, w.as<float>() + kA * kIn);
    for (const LoraTerm& term : lora) golden::merge(term, w);
    return w;
  }
  // What one output is made of, in float64: Σ x w, Σ |x w|, and of the LoRA Σ |scale B A x|.
  struct Sums {
    double value = 0, weight_size = 0, lora_size = 0;
  };
  Sums sums(const Tensor& w, std::span<const LoraTerm> lora, std::int64_t m, std::int64_t n) const {
    Sums result;
    const float* row = x.as<float>() + m * kIn;
    for (std::int64_t k = 0; k < kIn; ++k) {
      result.value += double(row[k]) * w.as<float>()[n * kIn + k];
      result.weight_size += std::fabs(double(row[k]) * w.as<float>()[n * kIn + k]);
    }
    for (const LoraTerm& term : lora) {
      const std::int64_t local = n - term.first_row;
      if (local < 0 || local >= term.up.rows()) continue;
      const Tensor down = to_float_tensor(term.down), up = to_float_tensor(term.up);
      for (std::int64_t r = 0; r < down.shape()[0]; ++r) {
        double inner = 0, inner_size = 0;
        for (std::int64_t k = 0; k < kIn; ++k) {
          inner += double(down.as<float>()[r * kIn + k]) * row[k];
          inner_size += std::fabs(double(down.as<float>()[r * kIn + k]) * row[k]);
        }
        const double factor = double(term.scale) * up.as<float>()[local * down.shape()[0] + r];
        result.value += factor * inner;
        result.lora_size += std::fabs(factor) * inner_size;
      }
    }
    return result;
  }
};

// Beside: K + 1 roundings on each product of the base, K + 1 (sum and scale) + r + 1 on each path through the LoRA, one on the addition. Merged: one on
// each weight, K on each product; |merged w| <= |w| + |scale B A|. Unit roundoff 2^-24, and 1 % for the squares of it that this leaves out.
TEST_F(LoraLaws, float_weights_equal_merging) {
  constexpr double kUnit = 0x1p-24 * 1.01;
  const WeightStore& store = open("plain");
  const Linear base = linear(store, precision::f32);
  const Tensor plain = merged(store, {});
  for (const std::int64_t rank : kRanks) {
    for (const bool is_fused : {true, false}) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        const std::vector<LoraTerm> lora = terms(rank, is_fused, dtype);
        const Tensor beside = run(base, lora);
        const Tensor w = merged(store, lora);
        const Tensor inside(DType::f32, {kRows, kOut});
        octavo::linear(cpu, x, {.name = "merged", .weight = w}, {}, inside);
        double moved = 0;
        for (std::int64_t m = 0; m < kRows; ++m) {
          for (std::int64_t n = 0; n < kOut; ++n) {
            const Sums exact = sums(plain, lora, m, n);
            const double bound_beside = kUnit * (double(kIn + 2) * exact.weight_size + double(kIn + 1 + rank + 1 + 1) * exact.lora_size);
            const double bound_inside = kUnit * double(kIn + 1) * (exact.weight_size + exact.lora_size);
            const float y = beside.as<float>()[m * kOut + n];
            ASSERT_NEAR(y, exact.value, bound_beside) << "rank " << rank << " fused " << is_fused << " " << name_of(dtype) << " at " << m << ", " << n;
            ASSERT_NEAR(y, inside.as<float>()[m * kOut + n], bound_beside + bound_inside);
            moved = std::max(moved, exact.lora_size / bound_beside);
          }
        }
        EXPECT_GT(moved, 1000) << "the LoRA is too small for the bound to see it";
      }
    }
  }
}

// In bf16 the base's result is rounded before the LoRA is added, and the sum again: 2^-8 of each.
TEST_F(LoraLaws, bf16_rows_equal_merging_within_two_roundings) {
  const WeightStore& store = open("plain");
  const Linear base = linear(store, precision::bf16);
  const Tensor plain = merged(store, {});
  for (const std::int64_t rank : kRanks) {
    const std::vector<LoraTerm> lora = terms(rank, false, DType::bf16);
    const Tensor y = to_float_tensor(run(base, lora, DType::bf16));
    for (std::int64_t m = 0; m < kRows; ++m) {
      for (std::int64_t n = 0; n < kOut; ++n) {
        const Sums exact = sums(plain, lora, m, n), without = sums(plain, {}, m, n);
        const double float_error = 0x1p-24 * 1.01 * double(2 * kIn + rank + 8) * (exact.weight_size + exact.lora_size);
        ASSERT_NEAR(y.as<float>()[m * kOut + n], exact.value, 0x1.02p-8 * (std::fabs(exact.value) + std::fabs(without.value)) + float_error) << rank;
      }
    }
  }
}

// Checkpoints whose weights cannot be merged into without being requantised.
class QuantisedLoraLaws : public LoraLaws {
 protected:
  // Int8 codes in a dialect of its own: rotated by `group`, or smoothed.
  void write_int8(const std::string& name, int group, bool is_smoothed) {
    golden::LoraBuilder builder;  // any list of tensors
    for (const auto& [module, out] : {std::pair{std::string("a"), kA}, std::pair{std::string("b"), kB}}) {
      Tensor codes(DType::s8, {out, kIn}), scale(DType::f32, {out});
      for (std::int64_t i = 0; i < out * kIn; ++i) codes.as<std::int8_t>()[i] = std::int8_t(i * 37 % 255 - 127);
      for (std::int64_t n = 0; n < out; ++n) scale.as<float>()[n] = 0.001f * float(n + 1);
      if (is_smoothed) {
        Tensor smooth(DType::f32, {kIn});
        for (std::int64_t k = 0; k < kIn; ++k) smooth.as<float>()[k] = 0.5f + float(k % 5);
        builder.add(module + ".wq", std::move(codes));
        builder.add(module + ".ws", std::move(scale));
        builder.add(module + ".smooth", std::move(smooth));
      } else {
        const std::string marker = R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":)" + std::to_string(group) + "}";
        Tensor json(DType::u8, {std::int64_t(marker.size())});
        std::memcpy(json.as<void>(), marker.data(), marker.size());
        builder.add(module + ".weight", std::move(codes));
        builder.add(module + ".weight_scale", std::move(scale));
        builder.add(module + ".comfy_quant", std::move(json));
      }
    }
    std::filesystem::create_directories(temporary.path() / name);
    builder.write(temporary.path() / name / "model.safetensors");
  }
  // With LoRAs the result must be, bit for bit, the one without plus the LoRA's own of the rows as they came.
  void expect_a_sum(const Linear& base, const std::string& what) {
    const Tensor without = run(base, {});
    for (const std::int64_t rank : kRanks) {
      for (const bool is_fused : {true, false}) {
        const std::vector<LoraTerm> lora = terms(rank, is_fused, DType::bf16);
        Tensor beside = Tensor::zeros(DType::f32, {kRows, kOut});
        add_lora(cpu, x, lora, beside);
        const Tensor with = run(base, lora);
        for (std::int64_t i = 0; i < kRows * kOut; ++i) {
          ASSERT_EQ(with.as<float>()[i], without.as<float>()[i] + beside.as<float>()[i]) << what << " rank " << rank << " fused " << is_fused << " at " << i;
          ASSERT_NE(beside.as<float>()[i], 0);
        }
      }
    }
  }
};

TEST_F(QuantisedLoraLaws, weights_of_every_precision_are_left_as_they_are) {
  const WeightStore& store = open("plain");
  for (const Precision& precision : precision::all) expect_a_sum(linear(store, precision), std::string(precision.name));
}

TEST_F(QuantisedLoraLaws, rotated_weights_meet_a_lora_on_unrotated_rows) {
  write_int8("rotated", 16, false);
  const Linear base = linear(open("rotated"), precision::w8a8);
  ASSERT_EQ(base.parts()[0].rotation_group, 16);
  expect_a_sum(base, "rotated");
}

TEST_F(QuantisedLoraLaws, smoothed_weights_meet_a_lora_on_rows_as_they_came) {
  write_int8("smoothed", 0, true);
  const WeightStore& store = open("smoothed");
  ASSERT_NE(store.linear("a").smoothing, Smoothing::none);
  expect_a_sum(linear(store, precision::w8a8), "smoothed");
}

// Codes that the projection makes of float rows are those that a producer would have handed over: asking for floats changes nothing else.
TEST_F(QuantisedLoraLaws, asking_for_floats_changes_no_code) {
  const Linear base = linear(open("plain"), precision::w8a8);
  const std::vector<LoraTerm> lora = terms(4, true);
  EXPECT_TRUE(LoraLinear(base, {}).input().is_quantized);
  EXPECT_FALSE(LoraLinear(base, lora).input().is_quantized);
  const ArenaScope scope(*cpu.ctx.scratch);
  const Tensor from_codes(DType::f32, {kRows, kOut});
  base.forward(cpu, as_projection_input(cpu, precision::w8a8, x), {}, from_codes);
  EXPECT_TRUE(same_bits(run(base, {}), from_codes));
}

TEST_F(LoraLaws, several_loras_add_up_in_their_order) {
  const Linear base = linear(open("plain"), precision::f32);
  std::vector<LoraTerm> both = terms(4, true);
  const std::vector<LoraTerm> second = terms(17, false);
  Tensor expected = run(base, both);
  add_lora(cpu, x, second, expected);
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_TRUE(same_bits(run(base, both), expected));
}

TEST_F(LoraLaws, a_row_depends_on_no_other_row_and_on_no_thread) {
  const Linear base = linear(open("plain"), precision::w8a8);
  const std::vector<LoraTerm> lora = terms(17, false, DType::bf16);
  const Tensor all = run(base, lora);
  for (const int threads : {1, 2, 5}) {
    CpuContext other(threads);
    for (std::int64_t m = 0; m < kRows; ++m) {
      Tensor y(DType::f32, {1, kOut});
      LoraLinear(base, lora).forward(other, x.view().row_range(m, 1), {}, y);
      ASSERT_EQ(std::memcmp(y.as<float>(), all.as<float>() + m * kOut, y.bytes()), 0) << threads << " threads, row " << m;
    }
  }
}

TEST_F(LoraLaws, an_activation_comes_after_the_lora) {
  const Linear base = linear(open("plain"), precision::f32);
  const std::vector<LoraTerm> lora = terms(4, true);
  const Tensor linear_sum = run(base, lora), activated = run(base, lora, DType::f32, {.activation = Activation::silu});
  for (std::int64_t i = 0; i < kRows * kOut; ++i) {
    const double v = linear_sum.as<float>()[i];
    ASSERT_NEAR(activated.as<float>()[i], v / (1 + std::exp(-v)), 1e-6 * std::fabs(v));
  }
}

TEST_F(LoraLaws, rows_in_codes_and_a_gate_in_the_epilogue_are_our_bugs) {
  const Linear base = linear(open("plain"), precision::w8a8);
  const std::vector<LoraTerm> lora = terms(4, true);
  const ArenaScope scope(*cpu.ctx.scratch);
  const Tensor y(DType::f32, {kRows, kOut});
  EXPECT_THROW(LoraLinear(base, lora).forward(cpu, as_projection_input(cpu, precision::w8a8, x), {}, y), InternalError);
  EXPECT_THROW(LoraLinear(base, lora).forward(cpu, x, {.residual = y}, y), InternalError);
}

}  // namespace
}  // namespace octavo::nn
