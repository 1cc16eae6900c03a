// What is told from headers and sizes against what loading and running count.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "device/counters.h"
#include "golden/golden.h"
#include "golden/lora_files.h"
#include "models/flux2_vae/footprint.h"
#include "models/flux2_vae/network.h"
#include "models/ideogram4/footprint.h"
#include "models/ideogram4/params.h"
#include "models/qwen3_vl/footprint.h"

namespace octavo {
namespace {

using golden::CpuContext;
using golden::Reference;
namespace fs = std::filesystem;

std::vector<fs::path> models() { return {golden::data_folder() / "tiny-hd64", golden::data_folder() / "tiny-hd256", golden::demo_model()}; }

std::vector<Precision> recipes() {
  return {precision::f32,  precision::bf16,        precision::fp16, precision::on_gpu(precision::w8a8), precision::on_gpu(precision::w8a8, 75),
          precision::w8a8, precision::w8a8_dequant};
}

constexpr std::int64_t kSteps = 3;

// The work takes `bytes` of scratch at most: it runs in an arena in whose one block so much is left, and not in one with 256 bytes less.
void expect_scratch(std::int64_t bytes, const std::string& which, const std::function<void(ExecContext&)>& work) {
  const std::int64_t block = bytes + (16 << 20);  // more than the least that an Arena takes at once
  for (const std::int64_t left : {bytes, bytes - 256}) {
    CpuContext cpu(2, true);
    {
      const ArenaScope scope(cpu.scratch);
      cpu.scratch.take(std::size_t(block), "the block");
    }
    cpu.scratch.take(std::size_t(block - left), "what is not to be used");
    ASSERT_EQ(std::int64_t(cpu.scratch.peak_bytes()), block);
    work(cpu);
    EXPECT_EQ(std::int64_t(cpu.scratch.peak_bytes()) > block, left < bytes) << which << ": " << bytes << " bytes were planned";
  }
}

// The plain bodies of the ops take no scratch of their own, so what the arena counts is the network's.
TEST(DenoiserFootprint, rows_are_what_the_arena_counts) {
  for (const fs::path& model : models()) {
    for (const Precision& recipe : recipes()) {
      if (model == golden::demo_model() && recipe.name != "bf16") continue;  // one recipe of the larger one is enough
      for (const bool has_text : {true, false}) {
        CpuContext cpu(2, true);
        const std::string component = has_text ? "transformer" : "unconditional_transformer";
        const ideogram4::DitFootprint footprint(model / component, component, recipe);
        const ideogram4::Dit dit(cpu, model / component, component, recipe);
        const int grid_h = 5, grid_w = 3;
        const std::int64_t text = has_text ? 7 : 0, image = std::int64_t(grid_h) * grid_w;
        const ideogram4::PictureSize size{.text_rows = text, .image_rows = image, .steps = kSteps};
        const Tensor features = Tensor::zeros(DType::f32, {7, dit.config().llm_features});
        const std::vector<float> times{0.0f, 0.5f, 1.0f};

        const auto prepare = [&](ExecContext& ctx) {
          return dit.prepare(ctx, grid_h, grid_w, has_text ? std::optional<TensorView>(features) : std::nullopt, times);
        };
        const std::string which = fmt::format("{} {} {}", model.filename().string(), component, recipe.name);
        const std::int64_t before = memory_count(Device{}).now;
        const auto session = prepare(cpu);
        EXPECT_EQ(memory_count(Device{}).now - before - std::int64_t(cpu.scratch.peak_bytes()), footprint.session(Device{}, size).bytes) << which;
        expect_scratch(footprint.prepare_scratch_bytes(Device{}, size), which + " prepare", [&](ExecContext& ctx) { (void)prepare(ctx); });

        const Tensor latents = Tensor::zeros(DType::f32, {image, dit.config().in_channels}), velocity(DType::f32, latents.shape());
        expect_scratch(footprint.forward_scratch_bytes(Device{}, size), which + " forward",
                       [&](ExecContext& ctx) { dit.forward(ctx, *session, 1, latents, velocity); });
        ideogram4::PictureSize with_codes = size;
        with_codes.attention = AttentionKind::int8;
        expect_scratch(footprint.forward_scratch_bytes(Device{}, with_codes), which + " forward with int8 attention", [&](ExecContext& ctx) {
          ctx.attention = AttentionKind::int8;
          dit.forward(ctx, *session, 1, latents, velocity);
        });
      }
    }
  }
}

// A LoRA on every layer takes rows of its own, and floats where its layer would have had codes.
TEST(DenoiserFootprint, loras_are_counted_as_the_arena_does) {
  const Reference reference("tiny-hd64");
  const fs::path folder = reference.folder / "transformer";
  const ideogram4::Config config = ideogram4::Config::read(folder);
  const std::vector<LoraTarget> targets = ideogram4::lora_targets(config, true);
  golden::LoraBuilder builder;
  LoraTerms loras;
  for (const LoraTarget& target : targets) {
    if (target.module == "final_linear" || target.module.ends_with(".qkv") || target.module.ends_with("attention.o")) continue;
    builder.add_pair(target.module, target.rows, target.columns, 70, 1);  // a rank that is not thin beside these rows
    loras[target.projection].push_back({.module = target.module,
                                        .down = builder.tensor(target.module + ".lora_A.weight"),
                                        .up = builder.tensor(target.module + ".lora_B.weight"),
                                        .first_row = target.first_row});
  }
  for (const Precision& recipe : recipes()) {
    CpuContext cpu(2, true);
    const ideogram4::DitFootprint footprint(folder, "transformer", recipe);
    const ideogram4::Dit dit(cpu, folder, "transformer", recipe);
    const ideogram4::PictureSize size{.text_rows = 7, .image_rows = 15, .steps = kSteps, .lora = &loras};
    const Tensor features = Tensor::zeros(DType::f32, {7, config.llm_features});
    const std::vector<float> times{0.0f, 0.5f, 1.0f};
    const auto session = dit.prepare(cpu, 5, 3, features, times, &loras);
    const std::string which = fmt::format("LoRAs {}", recipe.name);
    expect_scratch(footprint.prepare_scratch_bytes(Device{}, size), which + " prepare",
                   [&](ExecContext& ctx) { (void)dit.prepare(ctx, 5, 3, features, times, &loras); });
    const Tensor latents = Tensor::zeros(DType::f32, {15, config.in_channels}), velocity(DType::f32, latents.shape());
    expect_scratch(footprint.forward_scratch_bytes(Device{}, size), which + " forward",
                   [&](ExecContext& ctx) { dit.forward(ctx, *session, 1, latents, velocity); });
  }
}

// More rows than one panel of the MLP takes: on the CPU the panel is a part of them, on a GPU all.
TEST(DenoiserFootprint, a_panel_of_the_mlp_is_counted_as_the_device_takes_it) {
  const fs::path model = golden::data_folder() / "tiny-hd64";
  const ideogram4::DitFootprint footprint(model / "transformer", "transformer", precision::w8a8);
  const ideogram4::PictureSize size{.text_rows = 5, .image_rows = 33 * 32, .steps = 1};
  CpuContext cpu(2, true);
  const ideogram4::Dit dit(cpu, model / "transformer", "transformer", precision::w8a8);
  const Tensor features = Tensor::zeros(DType::f32, {5, dit.config().llm_features});
  const std::vector<float> times{0.5f};
  const auto session = dit.prepare(cpu, 33, 32, features, times);
  const Tensor latents = Tensor::zeros(DType::f32, {size.image_rows, dit.config().in_channels}), velocity(DType::f32, latents.shape());
  expect_scratch(footprint.forward_scratch_bytes(Device{}, size), "panels", [&](ExecContext& ctx) { dit.forward(ctx, *session, 0, latents, velocity); });
  EXPECT_EQ(ideogram4::mlp_panel_rows(Device{Device::Kind::cuda, 0}, size.image_rows), size.image_rows);
  EXPECT_LT(ideogram4::mlp_panel_rows(Device{}, size.image_rows), size.image_rows);
}

// On the CPU the same numbers are owned or lie in the map: bf16 files in bf16 and in w8a8. (A CPU keeps f32 copies of no weight.)
TEST(DenoiserFootprint, weights_are_what_loading_counts) {
  for (const fs::path& model : models()) {
    for (const Precision& recipe : {precision::bf16, precision::w8a8}) {
      for (const std::string component : {"transformer", "unconditional_transformer"}) {
        CpuContext cpu;
        const ideogram4::DitFootprint footprint(model / component, component, recipe);
        const ideogram4::Dit dit(cpu, model / component, component, recipe);
        nn::Footprint all = footprint.rest();
        all += footprint.conditioning();
        for (const nn::Footprint& layer : footprint.layers()) all += layer;
        EXPECT_EQ(dit.owned_bytes() + dit.mapped_bytes(), all.bytes) << model << " " << component << " " << recipe.name;
        EXPECT_GE(all.allocated_bytes, all.bytes);
      }
    }
  }
}

TEST(TextFootprint, rows_and_weights_are_what_the_encoder_counts) {
  for (const char* name : {"tiny-hd64", "tiny-hd256"}) {
    const Reference reference(name);
    for (const Precision& recipe : {precision::f32, precision::bf16}) {
      CpuContext cpu(2, true);
      const qwen3_vl::TextFootprint footprint(reference.folder / "text_encoder", Reference::taps(), recipe);
      const qwen3_vl::TextEncoder encoder(cpu, reference.folder / "text_encoder", Reference::taps(), recipe);
      const std::vector<std::int32_t> ids = reference.tokens(0);
      expect_scratch(footprint.scratch_bytes(Device{}, std::int64_t(ids.size())), name, [&](ExecContext& ctx) { (void)encoder.encode(ctx, ids); });
      nn::Footprint all;
      for (const nn::Footprint& layer : footprint.layers()) all += layer;
      const qwen3_vl::TextEncoder without_layers(cpu, reference.folder / "text_encoder", Reference::taps(), recipe, qwen3_vl::TextResidency::one_layer);
      EXPECT_EQ(encoder.mapped_bytes() - without_layers.mapped_bytes(), all.bytes) << name;  // the second has the embedding alone
    }
  }
}

TEST(TextFootprint, one_layer_at_a_time_gives_the_same_bits) {
  const Reference reference("tiny-hd64");
  for (const Precision& recipe : {precision::f32, precision::bf16}) {
    CpuContext cpu;
    const auto encode = [&](qwen3_vl::TextResidency residency) {
      return qwen3_vl::TextEncoder(cpu, reference.folder / "text_encoder", Reference::taps(), recipe, residency).encode(cpu, reference.tokens(0));
    };
    EXPECT_TRUE(golden::same_bits(encode(qwen3_vl::TextResidency::whole), encode(qwen3_vl::TextResidency::one_layer))) << recipe.name;
  }
}

// decode() holds its block of maps, two strips and the picture; the latent is the caller's on the CPU and copied on a GPU.
TEST(DecoderFootprint, maps_are_what_decode_allocates) {
  for (const fs::path& model : models()) {
    for (const Precision& recipe : {precision::f32, precision::bf16}) {
      CpuContext cpu;  // the plain bodies make copies of their own, these do not
      const flux2_vae::Vae vae(cpu, model / "vae", recipe);
      const flux2_vae::DecoderFootprint footprint(model / "vae", recipe);
      const Tensor latent = Tensor::zeros(DType::f32, {6, 4, vae.config().latent_channels});
      for (const std::int64_t strip_elements : {std::int64_t(1), std::int64_t(3000), flux2_vae::kStripElements}) {
        CpuContext fresh;  // its scratch begins empty
        reset_memory_peak(Device{});
        const std::int64_t before = memory_count(Device{}).now;
        (void)vae.decode(fresh, latent, strip_elements);
        const std::int64_t held = memory_count(Device{}).peak - before - std::int64_t(fresh.scratch.peak_bytes());
        const std::int64_t planned = footprint.maps(6, 4, strip_elements).bytes - std::int64_t(latent.bytes());
        EXPECT_GE(held, planned) << model << " " << recipe.name << " " << strip_elements;
        // A group norm on the CPU keeps its weight and bias in float32 while it runs.
        EXPECT_LE(held, planned + 2 * 4 * std::int64_t(vae.config().block_channels.back())) << model << " " << recipe.name << " " << strip_elements;
      }
      if (recipe.residual == DType::bf16) {  // the files are bf16, and so is what a GPU keeps of them then
        EXPECT_EQ(vae.owned_bytes() + vae.mapped_bytes(), footprint.weights().bytes) << model;
      }
    }
  }
}

// Issue 6: 2048 pixels a side in the room of a small card. Two maps of 128 channels and the one of 256 channels below them, and strips.
TEST(DecoderFootprint, a_published_decoder_at_2048_takes_less_than_three_gigabytes) {
  const flux2_vae::Config config{.image_channels = 3,
                                 .latent_channels = 32,
                                 .block_channels = {128, 256, 512, 512},
                                 .decoder_block_channels = {128, 256, 512, 512},
                                 .layers_per_block = 2,
                                 .norm_groups = 32};
  const flux2_vae::NetworkSpec spec = flux2_vae::decoder_spec(config, {});
  for (const std::int64_t side : {512, 1024, 2048}) {
    const flux2_vae::MapSizes sizes = flux2_vae::map_sizes(spec, side / 8, side / 8, true, flux2_vae::kStripElements);
    EXPECT_EQ(sizes.block, side * side * (2 * 128 + 256 / 4));
    std::printf("decoder at %d: %.3f GB of maps, %.3f GB of strips in bf16\n", int(side), 2e-9 * double(sizes.block),
                2e-9 * double(sizes.strips[0] + sizes.strips[1]));
  }
  const flux2_vae::MapSizes sizes = flux2_vae::map_sizes(spec, 256, 256, true, flux2_vae::kStripElements);
  EXPECT_LT(2 * (sizes.block + sizes.strips[0] + sizes.strips[1]), 2'800'000'000);
}

}  // namespace
}  // namespace octavo
