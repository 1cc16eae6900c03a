// LoRAs on the golden denoisers: every kind of layer, against a checkpoint that they were merged into.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "golden/golden.h"
#include "golden/lora_files.h"
#include "models/ideogram4/dit.h"
#include "models/ideogram4/params.h"

namespace octavo::ideogram4 {
namespace {

using golden::CpuContext;
using golden::kDiffusersFile;
using golden::Reference;
using golden::TemporaryFolder;

const std::vector<float> kTimes{0.1f, 0.6f};

class LoraGolden : public ::testing::Test {
 protected:
  Reference reference{"tiny-hd64"};
  CpuContext cpu{};
  TemporaryFolder temporary{};
  std::filesystem::path cond = reference.folder / "transformer";
  Config config = Config::read(cond);
  std::vector<LoraTarget> targets = lora_targets(config, true), unconditional_targets = lora_targets(config, false);

  Tensor velocity(const Dit& dit, const LoraTerms* lora, bool has_text = true) {
    const Tensor features = reference.features();
    const auto session = dit.prepare(cpu, 6, 4, has_text ? std::optional<TensorView>(features) : std::nullopt, kTimes, lora);
    const Tensor noise = reference.noise();
    Tensor result(DType::f32, noise.shape());
    dit.forward(cpu, *session, 1, noise, result);
    return result;
  }
  // A LoRA file for the modules that `wants` picks.
  LoraFile lora_for(const std::function<bool(const std::string&)>& wants, std::int64_t rank, DType dtype = DType::f32) {
    golden::LoraBuilder builder;
    std::uint32_t seed = 100;
    for (const LoraTarget& target : targets) {
      if (!wants(target.module)) continue;
      builder.add_pair("transformer." + target.module, target.rows, target.columns, rank, seed += 2, dtype);
      builder.add_number("transformer." + target.module + ".alpha", 0.5f * float(rank));
    }
    return LoraFile(builder.write(temporary.path() / "lora.safetensors"));
  }
  // The checkpoint (split names) in float32 with the terms in its weights.
  std::filesystem::path merged_checkpoint(const LoraTerms& lora) {
    golden::EditableCheckpoint checkpoint(cond / kDiffusersFile);
    checkpoint.convert(DType::f32);
    const auto parts_of = [&](const std::string& projection) -> std::vector<std::string> {
      const auto named = [&](std::string_view from, const std::vector<std::string>& to) {
        std::vector<std::string> names;
        for (const std::string& name : to) names.push_back(projection.substr(0, projection.size() - from.size()) + name);
        return names;
      };
      if (projection.ends_with("attention.qkv")) return named("qkv", {"to_q", "to_k", "to_v"});
      if (projection.ends_with("attention.o")) return named("o", {"to_out.0"});
      if (projection.ends_with("w13")) return named("w13", {"w1", "w3"});
      return {projection};
    };
    for (const auto& [projection, terms] : lora) {
      std::int64_t first = 0;
      const std::vector<std::string> parts = parts_of(projection);
      for (const std::string& part : parts) {
        const TensorView w = checkpoint.tensors().at(part + ".weight");
        for (LoraTerm term : terms) {  // the rows of this part
          const std::int64_t from = std::max(first, term.first_row), to = std::min(first + w.rows(), term.first_row + term.up.rows());
          if (from >= to) continue;
          term.up = term.up.row_range(from - term.first_row, to - from);
          term.first_row = from - first;
          golden::merge(term, w);
        }
        first += w.rows();
      }
    }
    const std::filesystem::path folder = temporary.path() / "merged";
    checkpoint.write(folder / kDiffusersFile);
    golden::write_config(cond, folder, [](nlohmann::json&) {});
    return folder;
  }
};

// Two ways through some 40 float32 sums of up to 416 products each, errors adding up like a random walk at worst: sqrt(40 · 416) · 2^-24 = 8e-6 of the
// result's size. Each LoRA alone moves the velocity by far more than that, or the test could not see it.
constexpr double kTwoWays = 1e-5;

TEST_F(LoraGolden, every_kind_of_layer_equals_merging) {
  const Dit dit(cpu, cond, "transformer", precision::f32);
  const Tensor without = velocity(dit, nullptr);
  const std::vector<std::string> kinds{
      "input_proj",         "llm_cond_proj",   "t_embedding.mlp_in", "t_embedding.mlp_out", "adaln_proj",       "final_layer.adaln_modulation",
      "final_layer.linear", "attention.qkv",   "attention.to_q",     "attention.to_k",      "attention.to_v",   "attention.o",
      "attention.to_out.0", "feed_forward.w1", "feed_forward.w3",    "feed_forward.w2",     ".adaln_modulation"};
  for (const LoraTarget& target : targets) {
    const auto is_kind = [&](const std::string& kind) { return target.module.ends_with(kind) || target.module == "final_linear"; };
    EXPECT_TRUE(std::any_of(kinds.begin(), kinds.end(), is_kind)) << target.module << " is tested nowhere";
  }
  const std::vector<std::int64_t> ranks{1, 4, 17, 64, 256};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string& kind = kinds[i];
    const LoraFile file = lora_for([&](const std::string& module) { return module.ends_with(kind); }, ranks[i % ranks.size()]);
    const LoraFit fit = fit_lora(file, 0.9, targets, unconditional_targets);
    ASSERT_EQ(fit.keys_applied, file.keys()) << kind;
    const Tensor beside = velocity(dit, &fit.conditional);
    const Dit merged(cpu, merged_checkpoint(fit.conditional), "transformer", precision::f32);
    const double apart = golden::relative_l2(beside, velocity(merged, nullptr)), moved = golden::relative_l2(beside, without);
    EXPECT_LE(apart, kTwoWays) << kind;
    EXPECT_GE(moved, 100 * kTwoWays) << kind;
  }
}

TEST_F(LoraGolden, all_layers_at_once_at_every_rank) {
  const Dit dit(cpu, cond, "transformer", precision::f32);
  const auto is_split = [](const std::string& m) { return !m.ends_with("attention.qkv") && !m.ends_with("attention.o") && m != "final_linear"; };
  for (const std::int64_t rank : {1, 4, 17, 64, 256}) {
    const LoraFile file = lora_for(is_split, rank, DType::bf16);
    const LoraFit fit = fit_lora(file, 0.5, targets, unconditional_targets);
    const Dit merged(cpu, merged_checkpoint(fit.conditional), "transformer", precision::f32);
    EXPECT_LE(golden::relative_l2(velocity(dit, &fit.conditional), velocity(merged, nullptr)), kTwoWays) << rank;
  }
}

// A session without a LoRA after one with it, on the same weights: the bits of before. And a LoRA that adds zeros changes no number in any precision,
// though the layers then read floats instead of codes; but for the two layers with a SiLU behind them, which is then an op of its own with its own exp.
TEST_F(LoraGolden, sessions_do_not_see_each_others_loras) {
  golden::LoraBuilder builder;
  for (const LoraTarget& target : targets) {
    if (target.module == "t_embedding.mlp_in" || target.module == "adaln_proj") continue;
    builder.add(target.module + ".lora_A.weight", golden::random_rows({4, target.columns}, 7));
    builder.add(target.module + ".lora_B.weight", Tensor::zeros(DType::f32, {target.rows, 4}));
  }
  const LoraFile zeros(builder.write(temporary.path() / "zeros.safetensors"));
  const LoraFit nothing = fit_lora(zeros, 1, targets, unconditional_targets);
  for (const Precision& precision : precision::all) {
    const Dit dit(cpu, cond, "transformer", precision);
    const LoraFile file = lora_for([](const std::string& m) { return m.ends_with("attention.qkv") || m.ends_with("w2"); }, 4);
    const LoraFit fit = fit_lora(file, 1, targets, unconditional_targets);
    const Tensor before = velocity(dit, nullptr), with = velocity(dit, &fit.conditional), after = velocity(dit, nullptr);
    EXPECT_TRUE(golden::same_bits(before, after)) << precision.name;
    EXPECT_GE(golden::relative_l2(with, before), 0.01) << precision.name;
    const Tensor unchanged = velocity(dit, &nothing.conditional);
    for (std::int64_t i = 0; i < before.shape().elements(); ++i) ASSERT_EQ(unchanged.as<float>()[i], before.as<float>()[i]) << precision.name << " at " << i;
  }
}

// Quantisation noise is the base's own: with the LoRA beside it the int8 model stays as close to the float one as without.
TEST_F(LoraGolden, int8_weights_keep_their_distance) {
  const Dit exact(cpu, cond, "transformer", precision::f32), w8a8(cpu, cond, "transformer", precision::w8a8);
  const LoraFile file = lora_for([](const std::string& m) { return m.find("feed_forward") != m.npos || m.find("attention.to_") != m.npos; }, 17, DType::bf16);
  const LoraFit fit = fit_lora(file, 0.5, targets, unconditional_targets);
  const double without = golden::relative_l2(velocity(w8a8, nullptr), velocity(exact, nullptr));
  const double with = golden::relative_l2(velocity(w8a8, &fit.conditional), velocity(exact, &fit.conditional));
  EXPECT_LE(with, 2 * without);
  RecordProperty("w8a8_error_without", fmt::format("{:.3e}", without));
  RecordProperty("w8a8_error_with", fmt::format("{:.3e}", with));
}

// A fused pair is a split one whose parts share A: blocks of rows of B. The same products in the same order, so the same bits.
TEST_F(LoraGolden, fused_and_split_pairs_of_the_same_numbers_give_the_same_bits) {
  const LoraFile fused_file = lora_for([](const std::string& m) { return m.ends_with("attention.qkv"); }, 17);
  const LoraFit fused = fit_lora(fused_file, 1, targets, unconditional_targets);
  LoraTerms split;
  for (const auto& [projection, terms] : fused.conditional) {
    for (int part = 0; part < 3; ++part) {
      LoraTerm term = terms[0];
      term.up = term.up.row_range(part * config.hidden(), config.hidden());
      term.first_row = part * config.hidden();
      split[projection].push_back(term);
    }
  }
  for (const Precision& precision : {precision::f32, precision::w8a8}) {
    const Dit dit(cpu, cond, "transformer", precision);
    EXPECT_TRUE(golden::same_bits(velocity(dit, &fused.conditional), velocity(dit, &split))) << precision.name;
  }
}

TEST_F(LoraGolden, the_unconditional_denoiser_takes_one_too) {
  const Dit dit(cpu, reference.folder / "unconditional_transformer", "unconditional_transformer", precision::w8a8);
  golden::LoraBuilder builder;
  for (const LoraTarget& target : unconditional_targets) builder.add_pair("unconditional_transformer." + target.module, target.rows, target.columns, 4, 3);
  const LoraFile file(builder.write(temporary.path() / "uncond.safetensors"));
  const LoraFit fit = fit_lora(file, 0.2, targets, unconditional_targets);
  EXPECT_TRUE(fit.conditional.empty());
  EXPECT_GE(golden::relative_l2(velocity(dit, &fit.unconditional, false), velocity(dit, nullptr, false)), 0.01);
}

}  // namespace
}  // namespace octavo::ideogram4
