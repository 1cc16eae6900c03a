// Every way in which a config.json can be wrong: one clear error that names the file, the field and what was found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "golden/temporary_model.h"
#include "models/flux2_vae/vae.h"
#include "models/ideogram4/dit.h"
#include "models/qwen3_vl/text_encoder.h"
#include "octavo/error.h"

namespace octavo {
namespace {

using golden::TemporaryFolder;
using ::testing::HasSubstr;
using Change = std::function<void(nlohmann::json&)>;

enum class Kind { invalid_argument, data_error, unsupported };

struct Case {
  std::string name;
  std::string component;
  Change change;
  Kind kind;
  std::vector<std::string> says;
};

// Named in messages, instead of by its bytes.
void PrintTo(const Case& c, std::ostream* out) { *out << c.component << " " << c.name; }

void read(const std::string& component, const std::filesystem::path& folder) {
  if (component == "vae") {
    flux2_vae::Config::read(folder);
  } else if (component == "text_encoder") {
    qwen3_vl::Config::read(folder);
  } else {
    ideogram4::Config::read(folder);
  }
}

std::string caught(Kind kind, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    const bool is_kind = kind == Kind::invalid_argument ? dynamic_cast<const InvalidArgument*>(&error) != nullptr
                         : kind == Kind::data_error     ? dynamic_cast<const DataError*>(&error) != nullptr
                                                        : dynamic_cast<const Unsupported*>(&error) != nullptr;
    return is_kind ? error.what() : std::string("of another class: ") + error.what();
  }
  return "nothing was thrown";
}

std::vector<Case> cases() {
  const auto set = [](const std::string& field, nlohmann::json value) { return [=](nlohmann::json& c) { c[field] = value; }; };
  const auto drop = [](const std::string& field) { return [=](nlohmann::json& c) { c.erase(field); }; };
  const auto text = [](const std::string& field, nlohmann::json value) { return [=](nlohmann::json& c) { c["text_config"][field] = value; }; };
  const auto without_text = [](const std::string& field) { return [=](nlohmann::json& c) { c["text_config"].erase(field); }; };
  std::vector<Case> list{
      {"another_family",
       "transformer",
       set("_class_name", "FluxTransformer2DModel"),
       Kind::invalid_argument,
       {"'_class_name' is 'FluxTransformer2DModel'", "another model family"}},
      {"no_family", "transformer", drop("_class_name"), Kind::data_error, {"has no '_class_name'"}},
      {"heads_missing", "transformer", drop("num_attention_heads"), Kind::data_error, {"config.json: 'num_attention_heads' is missing"}},
      {"heads_null", "transformer", set("num_attention_heads", nullptr), Kind::data_error, {"'num_attention_heads' is missing"}},
      {"layers_negative", "transformer", set("num_layers", -1), Kind::data_error, {"'num_layers' is -1, outside 1 to 1000"}},
      {"layers_absurd", "transformer", set("num_layers", 1000000), Kind::data_error, {"'num_layers' is 1000000"}},
      {"layers_beyond_64_bits", "transformer", set("num_layers", UINT64_MAX), Kind::data_error, {"'num_layers' is 18446744073709551615"}},
      {"layers_a_text", "transformer", set("num_layers", "two"), Kind::data_error, {"'num_layers' is \"two\", not a whole number"}},
      {"layers_a_fraction", "transformer", set("num_layers", 2.5), Kind::data_error, {"'num_layers' is 2.5, not a whole number"}},
      {"head_dim_odd", "transformer", set("attention_head_dim", 63), Kind::data_error, {"'attention_head_dim' is 63"}},
      {"sections_of_two", "transformer", set("mrope_section", {8, 6}), Kind::data_error, {"'mrope_section' is [8,6], not a list of 3"}},
      {"sections_too_long",
       "transformer",
       set("mrope_section", {8, 12, 6}),
       Kind::data_error,
       {"'mrope_section' is [8, 12, 6], which reaches frequency 34", "have 32"}},
      {"theta_zero", "transformer", set("rope_theta", 0), Kind::data_error, {"'rope_theta' is 0"}},
      {"eps_a_list", "transformer", set("norm_eps", {1}), Kind::data_error, {"'norm_eps' is [1], not a number"}},
      {"not_an_object", "transformer", [](nlohmann::json& c) { c = nlohmann::json::array({1, 2}); }, Kind::data_error, {"config.json: holds [1,2]"}},
      {"another_family", "text_encoder", set("model_type", "llama"), Kind::invalid_argument, {"'model_type' is 'llama'"}},
      {"no_family", "text_encoder", drop("model_type"), Kind::data_error, {"has no 'model_type'"}},
      {"no_text_config", "text_encoder", drop("text_config"), Kind::data_error, {"'hidden_size' is missing"}},
      {"text_config_a_text", "text_encoder", set("text_config", "x"), Kind::data_error, {"'text_config' is \"x\", not an object"}},
      {"hidden_missing", "text_encoder", without_text("hidden_size"), Kind::data_error, {"'hidden_size' is missing"}},
      {"heads_no_multiple", "text_encoder", text("num_key_value_heads", 3), Kind::data_error, {"'num_attention_heads' is 4, not a multiple", "3"}},
      {"theta_missing", "text_encoder", without_text("rope_parameters"), Kind::data_error, {"'rope_theta' is missing"}},
      {"biases", "text_encoder", text("attention_bias", true), Kind::unsupported, {"'attention_bias' is true"}},
      {"gelu", "text_encoder", text("hidden_act", "gelu"), Kind::unsupported, {"'hidden_act' is 'gelu'"}},
      {"head_dim_odd", "text_encoder", text("head_dim", 15), Kind::data_error, {"'head_dim' is 15"}},
      {"another_family", "vae", set("_class_name", "AutoencoderKL"), Kind::invalid_argument, {"'_class_name' is 'AutoencoderKL'"}},
      {"channels_missing", "vae", drop("latent_channels"), Kind::data_error, {"'latent_channels' is missing"}},
      {"four_image_channels", "vae", set("in_channels", 4), Kind::data_error, {"'in_channels' is 4"}},
      {"no_blocks", "vae", set("block_out_channels", nlohmann::json::array()), Kind::data_error, {"'block_out_channels' is [], not a list of 1 to 8"}},
      {"groups_no_divisor", "vae", set("norm_num_groups", 7), Kind::data_error, {"'norm_num_groups' 7"}},
      {"decoder_blocks_differ_in_count", "vae", set("decoder_block_out_channels", {8, 8}), Kind::data_error, {"'decoder_block_out_channels' is [8,8]"}},
      {"oblong_patch", "vae", set("patch_size", {2, 1}), Kind::unsupported, {"'patch_size' is [2, 1]"}},
      {"flag_a_number", "vae", set("use_quant_conv", 1), Kind::data_error, {"'use_quant_conv' is 1, not true or false"}},
      {"relu", "vae", set("act_fn", "relu"), Kind::unsupported, {"'act_fn' is 'relu'"}},
  };
  return list;
}

class ConfigErrors : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Config, ConfigErrors, ::testing::ValuesIn(cases()),
                         [](const ::testing::TestParamInfo<Case>& test) { return test.param.component + "_" + test.param.name; });

TEST_P(ConfigErrors, one_clear_error) {
  const Case& c = GetParam();
  TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path() / c.component;
  golden::write_config(golden::data_folder() / "tiny-hd64" / c.component, folder, c.change);
  const std::string message = caught(c.kind, [&] { read(c.component, folder); });
  EXPECT_THAT(message, HasSubstr(c.component + "/config.json"));
  for (const std::string& part : c.says) EXPECT_THAT(message, HasSubstr(part));
}

TEST(ConfigFiles, missing_empty_and_not_json) {
  TemporaryFolder temporary;
  for (const std::string component : {"vae", "text_encoder", "transformer"}) {
    const std::filesystem::path folder = temporary.path() / component;
    EXPECT_THAT(caught(Kind::invalid_argument, [&] { read(component, folder); }), HasSubstr("config.json"));
    for (const std::string text : {"", "<html>", "{\"a\":"}) {
      golden::write_text(folder / "config.json", text);
      EXPECT_THAT(caught(Kind::data_error, [&] { read(component, folder); }), HasSubstr("config.json")) << text;
    }
  }
}

TEST(ConfigFiles, of_another_component_says_what_it_is) {
  const std::filesystem::path model = golden::data_folder() / "tiny-hd64";
  EXPECT_THAT(caught(Kind::invalid_argument, [&] { read("transformer", model / "text_encoder"); }),
              HasSubstr("text_encoder/config.json: 'model_type' is 'qwen3_vl'"));
  EXPECT_THAT(caught(Kind::invalid_argument, [&] { read("text_encoder", model / "vae"); }),
              HasSubstr("vae/config.json: '_class_name' is 'AutoencoderKLFlux2'"));
  EXPECT_THAT(caught(Kind::invalid_argument, [&] { read("vae", model / "transformer"); }), HasSubstr("'Ideogram4Transformer2DModel'"));
}

TEST(TextEncoderConfig, theta_may_stand_beside_the_others_and_without_nesting) {
  TemporaryFolder temporary;
  const std::filesystem::path from = golden::data_folder() / "tiny-hd64" / "text_encoder";
  golden::write_config(from, temporary.path(), [](nlohmann::json& c) {
    nlohmann::json inner = c["text_config"];
    inner.erase("rope_parameters");
    inner["rope_theta"] = 5000000;
    c = inner;
  });
  const qwen3_vl::Config a = qwen3_vl::Config::read(from), b = qwen3_vl::Config::read(temporary.path());
  EXPECT_EQ(a.rope_theta, b.rope_theta);
  EXPECT_EQ(a.hidden, b.hidden);
}

TEST(VaeConfig, decoder_widths_are_optional) {
  TemporaryFolder temporary;
  const std::filesystem::path from = golden::data_folder() / "tiny-hd64" / "vae";
  golden::write_config(from, temporary.path(), [](nlohmann::json& c) { c["decoder_block_out_channels"] = {8, 16, 16, 24}; });
  EXPECT_EQ(flux2_vae::Config::read(from).decoder_block_channels, flux2_vae::Config::read(from).block_channels);
  EXPECT_EQ(flux2_vae::Config::read(temporary.path()).decoder_block_channels, (std::vector<int>{8, 16, 16, 24}));
  EXPECT_EQ(flux2_vae::Config::read(from).scale(), 8);
}

}  // namespace
}  // namespace octavo
