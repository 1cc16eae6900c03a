// Streamed layers on the CPU: the same code as on a GPU, with copies that are done when they return.
#include "nn/block_stream.h"

#include <gtest/gtest.h>

#include "device/counters.h"
#include "golden/golden.h"
#include "models/ideogram4/dit.h"
#include "octavo/error.h"

namespace octavo {
namespace {

using golden::CpuContext;
using golden::Reference;

constexpr int kGridH = 6, kGridW = 4;
const std::vector<float> kTimes{0.0f, 0.37f, 1.0f};

std::vector<Tensor> velocities(CpuContext& cpu, const Reference& reference, const ideogram4::Dit& dit, bool conditional) {
  const Tensor features = reference.features(), noise = reference.noise();
  const auto session = dit.prepare(cpu, kGridH, kGridW, conditional ? std::optional<TensorView>(features) : std::nullopt, kTimes);
  std::vector<Tensor> result;
  for (int step = 0; step < int(kTimes.size()); ++step) {
    result.emplace_back(DType::f32, noise.shape());
    dit.forward(cpu, *session, step, noise, result.back());
  }
  return result;
}

TEST(IsStreamedLayer, as_many_as_asked_for_and_evenly) {
  for (int layers = 1; layers <= 40; ++layers) {
    for (int streamed = 0; streamed <= layers; ++streamed) {
      int count = 0, run = 0, longest = 0;
      for (int l = 0; l < layers; ++l) {
        const bool is_streamed = nn::is_streamed_layer(l, layers, streamed);
        count += is_streamed ? 1 : 0;
        run = is_streamed ? run + 1 : 0;
        longest = std::max(longest, run);
      }
      EXPECT_EQ(count, streamed);
      EXPECT_TRUE(longest <= 1 || 2 * streamed > layers) << streamed << " of " << layers;
    }
  }
}

// Every number of streamed layers of both networks on one stream, and what only prepare() reads loaded for each: the bits of resident ones.
TEST(StreamedDenoisers, same_bits_as_resident_ones) {
  for (const std::string& name : golden::reference_names()) {
    const Reference reference(name);
    for (const Precision& recipe : {precision::f32, precision::bf16, precision::w8a8}) {
      CpuContext cpu;
      const ideogram4::Dit cond(cpu, reference.folder / "transformer", "transformer", recipe);
      const ideogram4::Dit uncond(cpu, reference.folder / "unconditional_transformer", "unconditional_transformer", recipe);
      const std::vector<Tensor> want_cond = velocities(cpu, reference, cond, true), want_uncond = velocities(cpu, reference, uncond, false);
      for (int streamed = 1; streamed <= cond.config().layers; ++streamed) {
        nn::BlockStream stream{Device{}};
        const ideogram4::DitResidency residency{.stream = &stream, .streamed_layers = streamed, .keeps_conditioning = false};
        const ideogram4::Dit streamed_cond(cpu, reference.folder / "transformer", "transformer", recipe, residency);
        const ideogram4::Dit streamed_uncond(cpu, reference.folder / "unconditional_transformer", "unconditional_transformer", recipe, residency);
        stream.start();
        EXPECT_EQ(stream.size(), streamed + std::min(streamed, uncond.config().layers));
        for (int round = 0; round < 2; ++round) {
          const std::vector<Tensor> got_cond = velocities(cpu, reference, streamed_cond, true);
          const std::vector<Tensor> got_uncond = velocities(cpu, reference, streamed_uncond, false);
          for (std::size_t i = 0; i < kTimes.size(); ++i) {
            EXPECT_TRUE(golden::same_bits(got_cond[i], want_cond[i])) << name << " " << recipe.name << " " << streamed;
            EXPECT_TRUE(golden::same_bits(got_uncond[i], want_uncond[i])) << name << " " << recipe.name << " " << streamed;
          }
          cpu.ctx.stream = nullptr;
          stream.suspend(cpu);  // as between two pictures
          stream.start();
        }
      }
    }
  }
}

// Blocks of one projection each, 8 x 8 numbers of f32, from the smallest model.
class BlockStreamOrder : public ::testing::Test {
 protected:
  static constexpr int kBlocks = 5;
  CpuContext cpu{};
  Reference reference{"tiny-hd64"};
  WeightStore store{reference.folder / "transformer", "transformer"};
  std::vector<nn::Linear> linears{};
  nn::BlockStream stream{Device{}};

  BlockStreamOrder() {
    const std::vector<std::string> modules = store.modules();
    for (const std::string& module : modules) {
      if (int(linears.size()) < kBlocks && module.find("feed_forward.w") != std::string::npos) {
        linears.push_back(nn::Linear(cpu, store, {{module}}, false, nn::LinearUse(precision::f32)));
      }
    }
  }
  // The numbers of block i as they are where a kernel would read them.
  std::vector<std::byte> seen(int i) const {
    const TensorView weight = linears[std::size_t(i)].parts()[0].weight;
    const auto* bytes = static_cast<const std::byte*>(weight.data);
    return {bytes, bytes + weight.bytes()};
  }
};

TEST_F(BlockStreamOrder, any_order_finds_its_weights_and_the_planned_one_copies_each_once) {
  ASSERT_EQ(int(linears.size()), kBlocks);
  std::vector<std::vector<std::byte>> want;
  for (int i = 0; i < kBlocks; ++i) want.push_back(seen(i));
  std::int64_t all = 0;
  for (nn::Linear& linear : linears) {
    nn::Linear* const one[] = {&linear};
    stream.add(cpu, one);
  }
  EXPECT_THROW(stream.acquire(cpu, 0), InternalError);
  stream.start();
  all = stream.host_bytes();
  const auto use = [&](int i) {
    stream.acquire(cpu, i);
    EXPECT_EQ(seen(i), want[std::size_t(i)]) << i;
    stream.release(cpu, i);
  };
  for (int i = 0; i < kBlocks; ++i) use(i);
  const std::int64_t first_round = stream.copied_bytes();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kBlocks; ++i) use(i);
  }
  EXPECT_EQ(stream.copied_bytes() - first_round, 3 * all) << "every block is copied once a round";
  for (const int i : {3, 3, 0, 4, 2, 2, 1, 0, 3}) use(i);
  stream.acquire(cpu, 1);  // and is never released: work was broken off
  for (int i = 0; i < kBlocks; ++i) use(i);
}

TEST_F(BlockStreamOrder, no_more_blocks_than_places_are_copied_once_for_ever) {
  for (int i = 0; i < 2; ++i) {
    nn::Linear* const one[] = {&linears[std::size_t(i)]};
    stream.add(cpu, one);
  }
  stream.start();
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 2; ++i) {
      stream.acquire(cpu, i);
      stream.release(cpu, i);
    }
  }
  EXPECT_EQ(stream.copied_bytes(), stream.host_bytes());
  nn::Linear* const late[] = {&linears[2]};
  EXPECT_THROW(stream.add(cpu, late), InternalError);
}

TEST_F(BlockStreamOrder, places_take_the_room_of_two_largest_blocks) {
  const std::int64_t before = memory_count(Device{}).now;
  for (nn::Linear& linear : linears) {
    nn::Linear* const one[] = {&linear};
    stream.add(cpu, one);
  }
  EXPECT_EQ(memory_count(Device{}).now, before) << "weights of the map take no memory of the device, and host copies are not of the device";
  stream.start();
  EXPECT_EQ(memory_count(Device{}).now - before, 2 * stream.largest_block_bytes());
}

}  // namespace
}  // namespace octavo
