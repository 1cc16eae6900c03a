// Checkpoints that do not fit, callers that make mistakes, and people who change their minds.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "golden/random_model.h"
#include "models/flux2_vae/latent_statistics.h"
#include "models/flux2_vae/params.h"
#include "models/flux2_vae/vae.h"
#include "models/ideogram4/dit.h"
#include "models/qwen3_vl/text_encoder.h"
#include "octavo/error.h"
#include "unit/models/sha256.h"

namespace octavo {
namespace {

using golden::CpuContext;
using golden::EditableCheckpoint;
using golden::Reference;
using golden::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Exception>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "nothing was thrown";
}

struct Listener : Observer {
  int polls_left = -1;  // negative: never cancelled
  std::vector<std::string> lines{};
  void on_advisory(std::string_view line) override { lines.emplace_back(line); }
  bool cancelled() override { return polls_left >= 0 && polls_left-- == 0; }
};

class Loading : public ::testing::Test {
 protected:
  const std::filesystem::path source = golden::data_folder() / "tiny-hd64";
  TemporaryFolder temporary{};
  CpuContext cpu{};
  Listener listener{};

  Loading() { cpu.ctx.observer = &listener; }

  // Loads `component` from a copy of it whose tensors and config were changed.
  void load(
      const std::string& component, const std::function<void(EditableCheckpoint&)>& edit,
      const std::function<void(nlohmann::json&)>& change = [](nlohmann::json&) {}) {
    const std::string file = component == "text_encoder" ? "model.safetensors" : golden::kDiffusersFile;
    EditableCheckpoint checkpoint(source / component / file);
    edit(checkpoint);
    checkpoint.write(temporary.path() / component / file);
    golden::write_config(source / component, temporary.path() / component, change);
    open(component, temporary.path() / component);
  }
  void open(const std::string& component, const std::filesystem::path& folder) {
    if (component == "vae") {
      flux2_vae::Vae(cpu, folder, precision::f32);
    } else if (component == "text_encoder") {
      qwen3_vl::TextEncoder(cpu, folder, Reference::taps(), precision::f32);
    } else {
      ideogram4::Dit(cpu, folder, component, precision::f32);
    }
  }
};

const std::vector<std::pair<std::string, std::string>> kVictims{
    {"transformer", "layers.1.feed_forward.w2.weight"},         {"transformer", "llm_cond_proj.bias"},
    {"unconditional_transformer", "final_layer.linear.weight"}, {"text_encoder", "language_model.layers.17.self_attn.k_norm.weight"},
    {"vae", "encoder.mid_block.attentions.0.to_k.weight"},      {"vae", "bn.running_var"}};

TEST_F(Loading, a_missing_tensor_is_named) {
  for (const auto& [component, name] : kVictims) {
    const std::string message = message_of<DataError>([&, c = component, n = name] { load(c, [&](EditableCheckpoint& e) { e.tensors().erase(n); }); });
    EXPECT_THAT(message, HasSubstr(component + ": tensor '" + name + "'"));
    EXPECT_THAT(message, HasSubstr("is missing"));
  }
}

TEST_F(Loading, a_misshapen_tensor_is_named_with_both_shapes) {
  for (const auto& [component, name] : kVictims) {
    std::string shape;
    const std::string message = message_of<DataError>([&, c = component, n = name] {
      load(c, [&](EditableCheckpoint& e) {
        shape = e.tensors().at(n).shape.text();
        e.add(n, DType::bf16, {5, 7});
      });
    });
    EXPECT_THAT(message, HasSubstr(fmt::format("{}: tensor '{}' is [5, 7] but config.json asks for {}", component, name, shape)));
  }
}

TEST_F(Loading, a_tensor_of_integers_is_named) {
  for (const auto& [component, name] : kVictims) {
    const std::string message =
        message_of<DataError>([&, c = component, n = name] { load(c, [&](EditableCheckpoint& e) { e.add(n, DType::s32, e.tensors().at(n).shape); }); });
    EXPECT_THAT(message, HasSubstr(fmt::format("{}: tensor '{}' is stored as I32", component, name)));
  }
}

TEST_F(Loading, config_of_another_size_is_told_with_both_shapes) {
  const auto unchanged = [](EditableCheckpoint&) {};
  const std::string dit = message_of<DataError>([&] { load("transformer", unchanged, [](nlohmann::json& c) { c["intermediate_size"] = 256; }); });
  EXPECT_THAT(dit, HasSubstr("feed_forward.w1.weight' is [224, 192] but config.json asks for [256, 192]"));
  const std::string layers = message_of<DataError>([&] { load("transformer", unchanged, [](nlohmann::json& c) { c["num_layers"] = 3; }); });
  EXPECT_THAT(layers, HasSubstr("layers.2."));
  const std::string text = message_of<DataError>([&] { load("text_encoder", unchanged, [](nlohmann::json& c) { c["text_config"]["head_dim"] = 8; }); });
  EXPECT_THAT(text, HasSubstr("q_proj.weight' is [64, 32] but config.json asks for [32, 32]"));
  const std::string vae = message_of<DataError>([&] { load("vae", unchanged, [](nlohmann::json& c) { c["layers_per_block"] = 2; }); });
  EXPECT_THAT(vae, HasSubstr("vae: tensor '"));
}

TEST_F(Loading, extra_tensors_are_an_advisory_and_the_expected_unused_ones_are_not) {
  for (const std::string component : {"transformer", "unconditional_transformer", "text_encoder", "vae"}) {
    open(component, source / component);
    EXPECT_THAT(listener.lines, IsEmpty()) << component;
    load(component, [](EditableCheckpoint& e) { e.add("surplus", DType::s8, {3}); });
    ASSERT_EQ(listener.lines.size(), 1u) << component;
    EXPECT_EQ(listener.lines[0], component + ": 1 tensor in the file is not part of this model and is not read: surplus");
    listener.lines.clear();
  }
}

TEST_F(Loading, a_folder_without_weights) {
  golden::write_config(source / "vae", temporary.path() / "vae", [](nlohmann::json&) {});
  EXPECT_THAT(message_of<InvalidArgument>([&] { open("vae", temporary.path() / "vae"); }), HasSubstr("vae: no weights in"));
}

TEST_F(Loading, taps_must_ascend_within_the_layers) {
  for (const std::vector<int>& taps : {std::vector<int>{}, {3, 3}, {5, 2}, {-1, 2}, {0, 36}}) {
    const std::string message = message_of<InvalidArgument>([&] { qwen3_vl::TextEncoder(cpu, source / "text_encoder", taps, precision::f32); });
    EXPECT_THAT(message, HasSubstr("must ascend within the 36 layers"));
  }
}

// Layers behind the last tap are neither needed nor missed.
TEST_F(Loading, layers_behind_the_last_tap_may_be_absent) {
  EditableCheckpoint checkpoint(source / "text_encoder" / "model.safetensors");
  std::erase_if(checkpoint.tensors(), [](const auto& item) { return item.first.starts_with("language_model.layers.3"); });
  checkpoint.write(temporary.path() / "model.safetensors");
  golden::write_config(source / "text_encoder", temporary.path(), [](nlohmann::json&) {});
  const qwen3_vl::TextEncoder encoder(cpu, temporary.path(), {0, 2}, precision::f32);
  EXPECT_EQ(encoder.feature_columns(), 64);
  const std::vector<std::int32_t> ids{1, 2, 3};
  EXPECT_EQ(encoder.encode(cpu, ids).shape(), (Shape{3, 64}));
  EXPECT_THAT(listener.lines, IsEmpty());
}

TEST_F(Loading, token_ids_outside_the_vocabulary_and_no_tokens) {
  const qwen3_vl::TextEncoder encoder(cpu, source / "text_encoder", {0}, precision::f32);
  const std::vector<std::int32_t> beyond{1, 423}, negative{-1};
  EXPECT_THAT(message_of<InvalidArgument>([&] { encoder.encode(cpu, beyond); }), HasSubstr("423"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { encoder.encode(cpu, negative); }), HasSubstr("-1"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { encoder.encode(cpu, {}); }), HasSubstr("no tokens"));
  EXPECT_EQ(cpu.scratch.mark().used, 0u);  // errors give scratch back too
}

TEST_F(Loading, denoiser_checks_what_it_is_given) {
  const ideogram4::Dit cond(cpu, source / "transformer", "transformer", precision::f32);
  const ideogram4::Dit uncond(cpu, source / "unconditional_transformer", "unconditional_transformer", precision::f32);
  const std::vector<float> times{0.5f};
  const Tensor features = Tensor::zeros(DType::f32, {3, 416}), narrow = Tensor::zeros(DType::f32, {3, 400});
  EXPECT_THAT(message_of<InvalidArgument>([&] { cond.prepare(cpu, 2, 2, narrow.view(), times); }), HasSubstr("[3, 400]"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { uncond.prepare(cpu, 2, 2, features.view(), times); }), HasSubstr("takes no text features"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { cond.prepare(cpu, 0, 2, features.view(), times); }), HasSubstr("0 x 2"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { cond.prepare(cpu, 2, 2, features.view(), {}); }), HasSubstr("no model times"));

  const auto session = cond.prepare(cpu, 2, 2, features.view(), times);
  const Tensor latents = Tensor::zeros(DType::f32, {4, 32}), wrong = Tensor::zeros(DType::f32, {5, 32});
  EXPECT_THAT(message_of<InvalidArgument>([&] { cond.forward(cpu, *session, 1, latents, latents); }), HasSubstr("step 1 was not prepared"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { cond.forward(cpu, *session, 0, wrong, latents); }), HasSubstr("[5, 32]"));
  EXPECT_THAT(message_of<InternalError>([&] { uncond.forward(cpu, *session, 0, latents, latents); }), HasSubstr("another denoiser"));
}

TEST_F(Loading, autoencoder_checks_what_it_is_given) {
  const flux2_vae::Vae vae(cpu, source / "vae", precision::f32);
  const Tensor odd = Tensor::zeros(DType::f32, {12, 16, 3}), tokens = Tensor::zeros(DType::f32, {6, 32}), four = Tensor::zeros(DType::f32, {4, 4, 4});
  EXPECT_THAT(message_of<InvalidArgument>([&] { vae.encode(cpu, odd); }), HasSubstr("multiples of 8"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { vae.decode(cpu, four); }), HasSubstr("[H, W, 8]"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { vae.unpatchify(tokens, 2, 2); }), HasSubstr("6 tokens do not fill a grid of 2 x 2"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { vae.denormalize(cpu, four); }), HasSubstr("[L, 32]"));
}

// Cancelled at the n-th poll, wherever that is, nothing is left behind; and each model polls at least once a layer.
TEST_F(Loading, cancelling_stops_every_forward_pass_between_layers) {
  const ideogram4::Dit dit(cpu, source / "transformer", "transformer", precision::f32);
  const qwen3_vl::TextEncoder encoder(cpu, source / "text_encoder", Reference::taps(), precision::f32);
  const flux2_vae::Vae vae(cpu, source / "vae", precision::f32);
  const Tensor features = Tensor::zeros(DType::f32, {3, 416}), latents = Tensor::zeros(DType::f32, {4, 32}), velocity = Tensor::zeros(DType::f32, {4, 32});
  const Tensor latent = Tensor::zeros(DType::f32, {4, 4, 8}), image = Tensor::zeros(DType::f32, {16, 16, 3});
  const std::vector<float> times{0.5f};
  const std::vector<std::int32_t> ids{1, 2, 3};
  const auto session = dit.prepare(cpu, 2, 2, features.view(), times);
  const std::vector<std::tuple<std::string, int, std::function<void()>>> calls{
      {"forward", 2, [&] { dit.forward(cpu, *session, 0, latents, velocity); }},
      {"prepare", 1, [&] { dit.prepare(cpu, 2, 2, features.view(), times); }},
      {"encode text", 36, [&] { encoder.encode(cpu, ids); }},
      {"decode", 10, [&] { vae.decode(cpu, latent); }},
      {"encode image", 6, [&] { vae.encode(cpu, image); }},
      {"load", 2, [&] { ideogram4::Dit(cpu, source / "transformer", "transformer", precision::w8a8); }}};
  for (const auto& [name, polls, call] : calls) {
    for (const int poll : {0, polls - 1}) {
      listener.polls_left = poll;
      EXPECT_THAT(message_of<Cancelled>(call), HasSubstr("stopped as asked")) << name << " at poll " << poll;
      EXPECT_EQ(cpu.scratch.mark().used, 0u) << name;
    }
    listener.polls_left = -1;
    call();  // and it still works
  }
}

std::string digest(const std::array<float, flux2_vae::kPublishedChannels>& values) { return test::sha256(std::as_bytes(std::span(values))); }

TEST(Sha256, published_examples) {
  EXPECT_EQ(test::sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string abc = "abc";
  EXPECT_EQ(test::sha256(std::as_bytes(std::span(abc))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// spec section 9.4
TEST(PublishedLatentStatistics, have_the_published_digests) {
  EXPECT_EQ(digest(flux2_vae::kPublishedShift), "500785259e56d2e507f450e2a81b4e714b747104100a4ddac1c9681e20c62620");
  EXPECT_EQ(digest(flux2_vae::kPublishedScale), "8aff847687d2712d2363ec1267bf7daf83efe14a9aa7f28547e72b8363e899cc");
}

// A small autoencoder with the full model's 128 token channels: 32 latent channels, one resnet of width 8.
class WideVae : public Loading {
 protected:
  std::filesystem::path folder = temporary.path() / "vae";

  WideVae() {
    golden::write_config(source / "vae", folder, [](nlohmann::json& c) {
      c["latent_channels"] = 32;
      c["block_out_channels"] = {8, 8};
      c["norm_num_groups"] = 4;
    });
  }
  // With bn statistics near or far from the published ones, or without any.
  Tensor denormalized_ones(const std::string& statistics) {
    const flux2_vae::Config config = flux2_vae::Config::read(folder);
    std::vector<ParamSpec> specs = flux2_vae::encoder_spec(config, {}).parameters();
    for (const auto& more : {flux2_vae::decoder_spec(config, {}).parameters(), flux2_vae::statistics_parameters(config)})
      specs.insert(specs.end(), more.begin(), more.end());
    golden::write_random_checkpoint(folder / "random.safetensors", specs, 1);
    EditableCheckpoint checkpoint(folder / "random.safetensors");
    if (statistics == "none") {
      checkpoint.tensors().erase("bn.running_mean");
      checkpoint.tensors().erase("bn.running_var");
    } else if (statistics == "published") {
      const TensorView mean = checkpoint.add("bn.running_mean", DType::bf16, {128}), variance = checkpoint.add("bn.running_var", DType::bf16, {128});
      for (std::size_t k = 0; k < 128; ++k) {
        mean.as<bf16>()[k] = to_bf16(flux2_vae::kPublishedShift[k]);
        variance.as<bf16>()[k] = to_bf16(flux2_vae::kPublishedScale[k] * flux2_vae::kPublishedScale[k] - 1e-4f);
      }
    }
    checkpoint.write(folder / golden::kDiffusersFile);
    const flux2_vae::Vae vae(cpu, folder, precision::f32);
    Tensor tokens(DType::f32, {2, 128});
    std::fill_n(tokens.as<float>(), 256, 1.0f);
    vae.denormalize(cpu, tokens);
    return tokens;
  }
};

TEST_F(WideVae, published_constants_are_used_whatever_the_file_says) {
  for (const std::string statistics : {"none", "published", "of another training"}) {
    listener.lines.clear();
    const Tensor tokens = denormalized_ones(statistics);
    for (std::size_t k = 0; k < 256; ++k) {
      ASSERT_EQ(tokens.as<float>()[k], flux2_vae::kPublishedScale[k % 128] + flux2_vae::kPublishedShift[k % 128]) << statistics << " channel " << k;
    }
    if (statistics == "of another training") {
      ASSERT_EQ(listener.lines.size(), 1u);
      EXPECT_THAT(listener.lines[0], HasSubstr("vae: the file's bn statistics differ"));
    } else {
      EXPECT_THAT(listener.lines, IsEmpty()) << statistics;
    }
  }
}

}  // namespace
}  // namespace octavo
