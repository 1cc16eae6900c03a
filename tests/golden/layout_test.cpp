// The same weights under other names, in other files, in other dtypes: same results.
#include <fmt/format.h>

#include "golden/golden.h"
#include "golden/temporary_model.h"
#include "models/flux2_vae/vae.h"
#include "models/ideogram4/dit.h"
#include "models/qwen3_vl/text_encoder.h"

namespace octavo {
namespace {

using golden::CpuContext;
using golden::EditableCheckpoint;
using golden::kDiffusersFile;
using golden::Reference;
using golden::TemporaryFolder;

// Takes note of what the models have to say.
struct Listener : Observer {
  std::vector<std::string> lines{};
  void on_advisory(std::string_view line) override { lines.emplace_back(line); }
};

class Layout : public ::testing::Test {
 protected:
  Reference reference{"tiny-hd64"};
  CpuContext cpu{};
  Listener listener{};
  TemporaryFolder temporary{};

  Layout() { cpu.ctx.observer = &listener; }

  Tensor velocity(const std::filesystem::path& folder, const Precision& precision, const std::string& component = "transformer") {
    const ideogram4::Dit dit(cpu, folder, component, precision);
    const Tensor features = reference.features();
    const bool has_text = component == "transformer";
    const std::vector<float> times{0.37f};
    const auto session = dit.prepare(cpu, 6, 4, has_text ? std::optional<TensorView>(features) : std::nullopt, times);
    Tensor result(DType::f32, reference.noise().shape());
    dit.forward(cpu, *session, 0, reference.noise(), result);
    return result;
  }
  std::filesystem::path rewritten(const std::string& component, const std::string& file, const std::function<void(EditableCheckpoint&)>& edit) {
    const std::filesystem::path from = reference.folder / component;
    EditableCheckpoint checkpoint(from / file);
    edit(checkpoint);
    checkpoint.write(temporary.path() / component / file);
    golden::write_config(from, temporary.path() / component, [](nlohmann::json&) {});
    return temporary.path() / component;
  }
  std::filesystem::path rewritten_dit(const std::function<void(EditableCheckpoint&)>& edit) { return rewritten("transformer", kDiffusersFile, edit); }
};

void fuse_attention(EditableCheckpoint& checkpoint) {
  for (int l = 0; l < 2; ++l) {
    const std::string base = fmt::format("layers.{}.attention.", l);
    checkpoint.fuse({base + "to_q.weight", base + "to_k.weight", base + "to_v.weight"}, base + "qkv.weight");
    checkpoint.rename([&](const std::string& name) { return name == base + "to_out.0.weight" ? base + "o.weight" : name; });
  }
}

TEST_F(Layout, fused_official_names_give_the_bits_of_split_ones) {
  const std::filesystem::path fused = rewritten_dit(fuse_attention);
  for (const Precision& precision : precision::all) {
    EXPECT_TRUE(golden::same_bits(velocity(fused, precision), velocity(reference.folder / "transformer", precision))) << precision.name;
  }
  EXPECT_TRUE(listener.lines.empty());
}

TEST_F(Layout, names_of_the_denoiser_may_stand_under_a_prefix) {
  const Tensor expected = velocity(reference.folder / "transformer", precision::f32);
  for (const std::string prefix : {"model.diffusion_model.", "diffusion_model."}) {
    const auto folder = rewritten_dit([&](EditableCheckpoint& c) { c.rename([&](const std::string& name) { return prefix + name; }); });
    EXPECT_TRUE(golden::same_bits(velocity(folder, precision::f32), expected)) << prefix;
  }
}

// f32 and f16 hold every one of these bf16 weights that lies in f16's range; all weights here do, or lose less than a rounding of bf16.
TEST_F(Layout, weights_may_be_stored_as_f32_or_f16) {
  const Tensor expected = velocity(reference.folder / "transformer", precision::f32);
  const Tensor expected_w8a8 = velocity(reference.folder / "transformer", precision::w8a8);
  const auto f32_folder = rewritten_dit([](EditableCheckpoint& c) { c.convert(DType::f32); });
  EXPECT_LE(golden::relative_l2(velocity(f32_folder, precision::f32), expected), 2e-6);
  EXPECT_LE(golden::relative_l2(velocity(f32_folder, precision::w8a8), expected_w8a8), 2e-6);  // the same codes
  // At precision bf16 block weights are rounded to bf16 at load: here that gives the file's numbers back.
  EXPECT_LE(golden::relative_l2(velocity(f32_folder, precision::bf16), velocity(reference.folder / "transformer", precision::bf16)), 2e-3);
  const auto f16_folder = rewritten_dit([](EditableCheckpoint& c) { c.convert(DType::f16); });
  EXPECT_LE(golden::relative_l2(velocity(f16_folder, precision::f32), expected), 1e-3);
}

TEST_F(Layout, a_sharded_checkpoint_gives_the_bits_of_a_single_file) {
  const std::filesystem::path sharded = golden::demo_model() / "transformer";
  ASSERT_FALSE(std::filesystem::exists(sharded / kDiffusersFile));
  EditableCheckpoint whole(sharded / "diffusion_pytorch_model-00001-of-00002.safetensors");
  EditableCheckpoint second(sharded / "diffusion_pytorch_model-00002-of-00002.safetensors");
  whole.tensors().insert(second.tensors().begin(), second.tensors().end());
  whole.write(temporary.path() / "transformer" / kDiffusersFile);
  golden::write_config(sharded, temporary.path() / "transformer", [](nlohmann::json&) {});

  std::vector<Tensor> results;
  for (const std::filesystem::path& folder : {sharded, temporary.path() / "transformer"}) {
    const ideogram4::Dit dit(cpu, folder, "transformer", precision::f32);
    Tensor latents = Tensor::zeros(DType::f32, {12, dit.config().in_channels});
    for (std::int64_t i = 0; i < latents.shape().elements(); ++i) latents.as<float>()[i] = std::sin(float(i));
    Tensor features = Tensor::zeros(DType::f32, {5, dit.config().llm_features});
    for (std::int64_t i = 0; i < features.shape().elements(); ++i) features.as<float>()[i] = std::cos(float(i));
    const std::vector<float> times{0.5f};
    const auto session = dit.prepare(cpu, 3, 4, features.view(), times);
    results.emplace_back(DType::f32, latents.shape());
    dit.forward(cpu, *session, 0, latents, results.back());
  }
  EXPECT_TRUE(golden::same_bits(results[0], results[1]));
  EXPECT_TRUE(listener.lines.empty());
}

// Poisoned with NaN: one read of them would show in the result.
TEST_F(Layout, text_parameters_of_the_unconditional_branch_are_never_read) {
  const std::string component = "unconditional_transformer";
  const Tensor expected = velocity(reference.folder / component, precision::f32, component);
  const auto poisoned = rewritten(component, kDiffusersFile, [](EditableCheckpoint& c) {
    for (const std::string name : {"llm_cond_norm.weight", "llm_cond_proj.weight", "llm_cond_proj.bias"}) {
      const TensorView nan = c.add(name, DType::bf16, c.tensors().at(name).shape);
      std::memset(nan.data, 0xff, nan.bytes());
    }
  });
  EXPECT_TRUE(golden::same_bits(velocity(poisoned, precision::f32, component), expected));
  const auto without = rewritten(component, kDiffusersFile, [](EditableCheckpoint& c) {
    for (const std::string name : {"llm_cond_norm.weight", "llm_cond_proj.weight", "llm_cond_proj.bias"}) c.tensors().erase(name);
  });
  EXPECT_TRUE(golden::same_bits(velocity(without, precision::f32, component), expected));
  EXPECT_TRUE(listener.lines.empty());
}

TEST_F(Layout, text_encoder_prefixes_and_absent_vision_tower) {
  const std::vector<std::int32_t> ids = reference.tokens(2);
  const auto encode = [&](const std::filesystem::path& folder) {
    return qwen3_vl::TextEncoder(cpu, folder, Reference::taps(), precision::f32).encode(cpu, ids);
  };
  const Tensor expected = encode(reference.folder / "text_encoder");
  for (const std::string prefix : {"model.language_model.", "model."}) {
    const auto folder = rewritten("text_encoder", "model.safetensors", [&](EditableCheckpoint& c) {
      std::erase_if(c.tensors(), [](const auto& item) { return item.first.starts_with("visual.") || item.first == "language_model.norm.weight"; });
      c.rename([&](const std::string& name) { return prefix + name.substr(std::string("language_model.").size()); });
    });
    EXPECT_TRUE(golden::same_bits(encode(folder), expected)) << prefix;
  }
  EXPECT_TRUE(listener.lines.empty());
}

// spec section 9.5
std::string internal_vae_name(std::string name) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (const auto at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  };
  if (name.starts_with("quant_conv")) return "encoder." + name;
  if (name.starts_with("post_quant_conv")) return "decoder." + name;
  replace("mid_block.resnets.0", "mid.block_1");
  replace("mid_block.resnets.1", "mid.block_2");
  replace("mid_block.attentions.0.group_norm", "mid.attn_1.norm");
  replace("mid_block.attentions.0.to_out.0", "mid.attn_1.proj_out");
  replace("mid_block.attentions.0.to_", "mid.attn_1.");
  for (int i = 0; i < 4; ++i) {
    replace(fmt::format("encoder.down_blocks.{}.downsamplers.0.conv", i), fmt::format("encoder.down.{}.downsample.conv", i));
    replace(fmt::format("encoder.down_blocks.{}.resnets.", i), fmt::format("encoder.down.{}.block.", i));
    replace(fmt::format("decoder.up_blocks.{}.upsamplers.0.conv", i), fmt::format("decoder.up.{}.upsample.conv", 3 - i));
    replace(fmt::format("decoder.up_blocks.{}.resnets.", i), fmt::format("decoder.up.{}.block.", 3 - i));
  }
  replace("conv_shortcut", "nin_shortcut");
  replace("conv_norm_out", "norm_out");
  return name;
}

TEST_F(Layout, autoencoder_with_internal_names_gives_the_same_bits) {
  const auto internal = rewritten("vae", kDiffusersFile, [](EditableCheckpoint& c) {
    for (auto& [name, view] : c.tensors()) {
      const bool is_attention_matrix = name.find("attentions.0.to_") != std::string::npos && view.shape.rank() == 2;
      if (is_attention_matrix) view = view.reshaped({view.shape[0], view.shape[1], 1, 1});
    }
    c.rename(internal_vae_name);
  });
  const Tensor latent = golden::channels_last(reference.expected.tensor("vae.latent"));
  const Tensor image = golden::channels_last(reference.expected.tensor("vae.image"));
  const flux2_vae::Vae a(cpu, reference.folder / "vae", precision::f32), b(cpu, internal, precision::f32);
  EXPECT_TRUE(golden::same_bits(a.decode(cpu, latent), b.decode(cpu, latent)));
  EXPECT_TRUE(golden::same_bits(a.encode(cpu, image), b.encode(cpu, image)));
  EXPECT_TRUE(listener.lines.empty());
}

TEST_F(Layout, unknown_tensors_are_told_in_one_line_with_their_names) {
  const auto folder = rewritten_dit([](EditableCheckpoint& c) {
    for (int i = 0; i < 5; ++i) c.add(fmt::format("lora.{}.weight", i), DType::bf16, {2, 2});
  });
  velocity(folder, precision::f32);
  ASSERT_EQ(listener.lines.size(), 1u);
  EXPECT_EQ(listener.lines[0],
            "transformer: 5 tensors in the file are not part of this model and are not read: lora.0.weight, lora.1.weight, lora.2.weight and 2 more");
}

// Where the parameters are: in the map for floats, in own memory only what was quantised, repacked or rounded.
TEST_F(Layout, owned_and_mapped_bytes_add_up) {
  const ideogram4::Dit f32(cpu, reference.folder / "transformer", "transformer", precision::f32);
  const ideogram4::Dit w8a8(cpu, reference.folder / "transformer", "transformer", precision::w8a8);
  const std::int64_t d = 192, f = 224, per_layer = 4 * d * d + 3 * d * f, outputs_per_layer = 3 * d + d + 2 * f + d;
  EXPECT_EQ(w8a8.owned_bytes() - f32.owned_bytes(), 2 * (per_layer + 4 * outputs_per_layer));  // s8 codes and f32 scales
  EXPECT_EQ(f32.mapped_bytes() - w8a8.mapped_bytes(), 2 * 2 * per_layer);                      // bf16
  EXPECT_LT(f32.owned_bytes(), 4096);                                                          // two biases
}

}  // namespace
}  // namespace octavo
