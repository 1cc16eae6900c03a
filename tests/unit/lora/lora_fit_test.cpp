// From a file's names to places in the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "golden/lora_files.h"
#include "models/ideogram4/params.h"
#include "octavo/error.h"

namespace octavo {
namespace {

using golden::LoraBuilder;
using ideogram4::lora_targets;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ideogram4::Config small_config() {
  ideogram4::Config config;
  config.layers = 2;
  config.heads = 2;
  config.head_dim = 4;
  config.intermediate = 12;
  config.adaln = 6;
  config.in_channels = 5;
  config.llm_features = 9;
  return config;
}

std::string flattened(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

class LoraFitTest : public ::testing::Test {
 protected:
  golden::TemporaryFolder temporary{};
  std::filesystem::path path = temporary.path() / "style.safetensors";
  std::vector<LoraTarget> cond = lora_targets(small_config(), true), uncond = lora_targets(small_config(), false);

  LoraFit fit(const LoraBuilder& builder, double strength = 1) {
    builder.write(path);
    file_.emplace(path);
    return fit_lora(*file_, strength, cond, uncond);
  }
  std::string refusal(const LoraBuilder& builder, double strength = 1) {
    try {
      fit(builder, strength);
    } catch (const InvalidArgument& failure) {
      return failure.what();
    }
    return "accepted";
  }
  static void add(LoraBuilder& builder, const std::string& prefix, const LoraTarget& target, bool is_flat = false) {
    builder.add_pair(prefix + (is_flat ? flattened(target.module) : target.module), target.rows, target.columns, 2, 1);
  }

 private:
  std::optional<LoraFile> file_{};  // the fit points into it
};

// Every projection that a checkpoint holds, fused or split, may be the target of a LoRA, in its true size.
TEST_F(LoraFitTest, every_linear_of_the_model_has_a_place) {
  for (const bool is_fused : {false, true}) {
    ideogram4::Names names;
    names.is_fused = is_fused;
    for (const ParamSpec& spec : ideogram4::parameters(small_config(), names, true)) {
      if (spec.role != ParamRole::linear_weight) continue;
      const std::string module = spec.name.substr(0, spec.name.size() - std::string(".weight").size());
      const auto target = std::find_if(cond.begin(), cond.end(), [&](const LoraTarget& t) { return t.module == module; });
      ASSERT_NE(target, cond.end()) << module;
      EXPECT_EQ(Shape({target->rows, target->columns}), spec.shape) << module;
    }
  }
  for (const LoraTarget& target : uncond) EXPECT_THAT(target.module, Not(HasSubstr("llm_cond"))) << "the unconditional denoiser reads no text";
  EXPECT_EQ(cond.size(), uncond.size() + 1);
}

TEST_F(LoraFitTest, flattened_names_stay_different) {
  std::set<std::string> flat;
  for (const LoraTarget& target : cond) EXPECT_TRUE(flat.insert(flattened(target.module)).second) << target.module;
}

TEST_F(LoraFitTest, every_prefix_leads_every_module_to_its_place) {
  for (const std::string prefix : {"", "transformer.", "conditional_transformer.", "diffusion_model.", "model.diffusion_model.", "lora_unet_"}) {
    for (const LoraTarget& target : cond) {
      LoraBuilder builder;
      add(builder, prefix, target, prefix == "lora_unet_");
      const LoraFit found = fit(builder, 0.5);
      EXPECT_EQ(found.keys_applied, 2u);
      EXPECT_TRUE(found.unconditional.empty());
      ASSERT_EQ(found.conditional.size(), 1u) << prefix << target.module;
      const auto& [projection, terms] = *found.conditional.begin();
      EXPECT_EQ(projection, target.projection);
      ASSERT_EQ(terms.size(), 1u);
      EXPECT_EQ(terms[0].first_row, target.first_row);
      EXPECT_EQ(terms[0].scale, 0.5f);
      EXPECT_EQ(terms[0].up.rows(), target.rows);
    }
  }
}

TEST_F(LoraFitTest, names_that_say_so_mean_the_unconditional_denoiser) {
  LoraBuilder builder;
  for (const LoraTarget& target : uncond) add(builder, "unconditional_transformer.", target);
  const LoraFit found = fit(builder);
  EXPECT_TRUE(found.conditional.empty());
  EXPECT_EQ(found.keys_applied, 2 * uncond.size());
}

// Rows of q, k and v lie one behind the other in the projection that runs; so do those of w1 and w3.
TEST_F(LoraFitTest, split_pairs_become_row_ranges_of_the_fused_projection) {
  LoraBuilder builder;
  for (const std::string module : {"to_q", "to_k", "to_v"}) builder.add_pair("transformer.layers.1.attention." + module, 8, 8, 3, 1);
  for (const std::string module : {"w1", "w3"}) builder.add_pair("transformer.layers.1.feed_forward." + module, 12, 8, 3, 1);
  const LoraFit found = fit(builder);
  std::map<std::string, std::vector<std::int64_t>> first_rows;
  for (const auto& [projection, terms] : found.conditional) {
    for (const LoraTerm& term : terms) first_rows[projection].push_back(term.first_row);
  }
  EXPECT_THAT(first_rows, ElementsAre(std::pair<const std::string, std::vector<std::int64_t>>("layers.1.attention.qkv", {8, 0, 16}),  // in the order k, q, v
                                      std::pair<const std::string, std::vector<std::int64_t>>("layers.1.feed_forward.w13", {0, 12})));
}

TEST_F(LoraFitTest, scale_is_strength_times_alpha_by_rank) {
  LoraBuilder builder;
  builder.add_pair("layers.0.attention.o", 8, 8, 4, 1);
  builder.add_number("layers.0.attention.o.alpha", 6);
  const LoraFit found = fit(builder, -0.3);
  EXPECT_EQ(found.conditional.at("layers.0.attention.o")[0].scale, float(-0.3 * (6.0 / 4)));
  EXPECT_EQ(found.keys_applied, 3u);
}

TEST_F(LoraFitTest, the_text_encoders_part_is_left_over_and_named) {
  LoraBuilder builder;
  add(builder, "transformer.", cond[0]);
  builder.add_pair("text_encoder.layers.0.q_proj", 8, 8, 2, 1);
  const LoraFit found = fit(builder);
  EXPECT_EQ(found.keys_applied, 2u);  // exactly half: still a file for this model
  EXPECT_THAT(found.left_over, ElementsAre("text_encoder.layers.0.q_proj"));
}

TEST_F(LoraFitTest, a_file_of_another_model_is_refused_with_counts_and_near_names) {
  LoraBuilder builder;
  for (int i = 0; i < 3; ++i) builder.add_pair("transformer.layers." + std::to_string(i) + ".attn.to_q", 8, 8, 2, 1);
  EXPECT_THAT(refusal(builder),
              testing::AllOf(HasSubstr("only 0 of 6 keys"), HasSubstr("'transformer.layers.0.attn.to_q' (nearest here: 'layers.0.attention.to_q')"),
                             HasSubstr("another"), HasSubstr(", ...")));
  add(builder, "transformer.", cond[0]);  // one module of eight happens to have a name of this model
  EXPECT_THAT(refusal(builder), HasSubstr("only 2 of 8 keys"));
}

TEST_F(LoraFitTest, layers_past_the_last_one_have_no_place) {
  LoraBuilder builder;
  builder.add_pair("layers.2.attention.o", 8, 8, 2, 1);
  EXPECT_THAT(refusal(builder), HasSubstr("only 0 of 2 keys"));
}

TEST_F(LoraFitTest, the_same_names_in_another_size_are_refused) {
  LoraBuilder builder;
  add(builder, "transformer.", cond[0]);
  builder.add_pair("transformer.layers.0.attention.o", 16, 16, 2, 1);
  builder.add_pair("transformer.layers.1.attention.o", 8, 16, 2, 1);
  EXPECT_THAT(refusal(builder), testing::AllOf(HasSubstr("'transformer.layers.0.attention.o'"), HasSubstr("[16, 16]"), HasSubstr("[8, 8]"), HasSubstr("1 more"),
                                               HasSubstr("2 of 6 keys fit")));
}

TEST_F(LoraFitTest, a_strength_past_float32) {
  LoraBuilder builder;
  add(builder, "", cond[0]);
  EXPECT_THAT(refusal(builder, 1e39), testing::AllOf(HasSubstr("1e+39"), HasSubstr("float32")));
}

}  // namespace
}  // namespace octavo
