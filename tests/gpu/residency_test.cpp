// The demo picture under budgets: same bytes streamed and resident, and the memory that the plan promised.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "device/counters.h"
#include "golden/golden.h"
#include "gpu/gpu_test.h"
#include "nn/block_stream.h"
#include "nn/placement.h"
#include "pipeline/model_memory.h"
#include "pipeline/pipeline.h"

namespace octavo {
namespace {

using namespace octavo::testing;  // NOLINT

class ResidencyCuda : public GpuTest {
 protected:
  const Request request_{.prompt = "three orange stars in a row on a blue background", .width = 256, .height = 192, .steps = 3, .guidance = {3.0f}, .batch = 2};

  Pipeline open(const Precision& precision, std::optional<std::int64_t> vram_bytes) {
    return Pipeline({.model = golden::demo_model(), .precision = precision, .device = gpu().device, .threads = 2, .vram_bytes = vram_bytes});
  }
  static std::vector<Image> draw(Pipeline& pipeline, const Request& request) {
    Observer observer;
    return pipeline.run(pipeline.plan(request), observer, {});
  }
  // Of the plan, without what CUDA takes for itself: that is there before the first byte is counted.
  static std::int64_t counted(const ResidencyPlan& plan) { return plan.peak_bytes() - kRuntimeBytes; }
};

// C6, C7: whatever the budget, same bytes; and no more memory than was planned, both as the program counts it and as the driver reports it.
TEST_F(ResidencyCuda, same_bytes_within_every_budget_and_the_plan_is_kept) {
  for (const Precision& precision : {precision::w8a8, precision::bf16, precision::fp16}) {
    const ModelMemory memory(ModelIndex::read(golden::demo_model()), precision::on_gpu(precision, sm()), precision::plain_on_gpu(precision, sm()),
                             gpu().device);
    constexpr std::int64_t kTokens = 60;  // more than the prompt has: the plan of the pipeline, which counts them, is no larger
    const ResidencyRows rows = memory.rows({.width = 256, .height = 192, .steps = 3, .text_tokens = kTokens});
    const std::int64_t least = smallest_budget(memory.weights(), rows);
    const std::int64_t most = evaluate_residency(memory.weights(), rows, {}, 1ll << 40).peak_bytes() + kMarginBytes;
    std::vector<Image> want;
    int streamed_plans = 0;
    for (int part = 4; part >= 0; --part) {
      Pipeline pipeline = open(precision, least + (most - least) * part / 4);
      const ResidencyPlan plan = *pipeline.residency(pipeline.plan(request_), kTokens);
      const std::int64_t before = memory_count(gpu().device).now;
      reset_memory_peak(gpu().device);
      const std::vector<Image> got = draw(pipeline, request_);
      const std::int64_t peak = memory_count(gpu().device).peak - before;
      std::printf("%-5s part %d: %d + %d layers streamed, %s, %s; peak %.2f MiB counted, %.2f MiB planned (CUDA itself left out), %.2f MiB streamed\n",
                  std::string(precision.name).c_str(), part, plan.choice.cond_streamed, plan.choice.uncond_streamed,
                  plan.choice.keeps_conditioning ? "preparation stays" : "preparation leaves", plan.keeps_text_whole ? "text whole" : "text layer by layer",
                  double(peak) / 1048576, double(counted(plan)) / 1048576, double(pipeline.streamed_bytes()) / 1048576);
      EXPECT_LE(peak, counted(plan));
      // The workspace of the ops is reserved whether an op asks for it or not; units of the driver are counted in the plan alone.
      EXPECT_GE(peak, counted(plan) / 2) << "the plan counts something that is not there";
      EXPECT_EQ(pipeline.streamed_bytes() > 0, plan.choice.streams());
      streamed_plans += plan.choice.streams() ? 1 : 0;
      if (want.empty()) want = got;
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].rgb, want[i].rgb) << precision.name << " part " << part;
      const std::vector<Image> again = draw(pipeline, request_);
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(again[i].rgb, want[i].rgb) << precision.name << " part " << part << ", again";
    }
    EXPECT_GE(streamed_plans, 1);
  }
}

// What the driver hands out for the arena, the weights and the maps of one picture; measured when everything but the maps is there, at the end of a run.
TEST_F(ResidencyCuda, what_the_driver_gives_is_within_the_plan) {
  const auto used = [] {
    std::size_t free_bytes = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
    return std::int64_t(total - free_bytes);
  };
  gpu().stream.synchronize();
  {  // kernels, library handles and their memory come with their first use
    Pipeline warm = open(precision::w8a8, std::nullopt);
    (void)draw(warm, request_);
  }
  const std::int64_t before = used();
  Pipeline pipeline = open(precision::w8a8, std::nullopt);
  std::int64_t most = 0;
  struct Watcher final : Observer {
    std::function<void()> look;
    void on_progress(std::string_view, int, int, int) override { look(); }
  } watcher;
  watcher.look = [&] { most = std::max(most, used() - before); };
  (void)pipeline.run(pipeline.plan(request_), watcher, {});
  const ResidencyPlan plan = *pipeline.residency(pipeline.plan(request_), 60);
  std::printf("driver: %.1f MiB more than before; %.1f MiB planned (CUDA itself left out)\n", double(most) / 1048576, double(counted(plan)) / 1048576);
  EXPECT_LE(most, counted(plan) + (std::int64_t(8) << 20)) << "8 MiB: the driver's 2 MiB blocks that small tensors of several kinds share";
}

// Weights that change under a kernel's hands would show: many blocks, large enough that copies and products overlap, against the same products resident.
TEST_F(ResidencyCuda, copies_never_overtake_the_work_that_reads_their_place) {
  const WeightStore store(golden::demo_model() / "transformer", "transformer");
  ThreadPool pool(2);
  ExecContext ctx = gpu_context();
  ctx.pool = &pool;
  std::vector<std::string> modules;
  for (const std::string& module : store.modules()) {
    if (module.find("feed_forward.w1") != std::string::npos) modules.push_back(module);
  }
  ASSERT_GE(modules.size(), 5u);
  std::vector<nn::Linear> resident, streamed;
  for (const std::string& module : modules) {
    resident.emplace_back(ctx, store, std::vector<nn::LinearPart>{{module}}, false, nn::LinearUse(precision::bf16));
    streamed.emplace_back(ctx, store, std::vector<nn::LinearPart>{{module}}, false, nn::LinearUse(precision::bf16));
  }
  nn::BlockStream stream(gpu().device);
  for (nn::Linear& linear : streamed) {
    nn::Linear* const one[] = {&linear};
    stream.add(ctx, one);
  }
  stream.start();
  constexpr std::int64_t kRows = 4096;  // a product takes longer than a copy of its weights
  const std::int64_t k = resident[0].in_features(), n = resident[0].out_features();
  Tensor host(DType::bf16, {kRows, k});
  for (std::int64_t i = 0; i < kRows * k; ++i) host.as<bf16>()[i] = to_bf16(float(int(random()() % 2001) - 1000) / 500.0f);
  const Tensor x = to_gpu(host);
  std::vector<Tensor> want, got;
  constexpr int kRounds = 6;
  for (const nn::Linear& linear : resident) {
    want.emplace_back(DType::bf16, Shape{kRows, n}, gpu().device);
    linear.forward(ctx, x.view(), {}, want.back());
  }
  for (int round = 0; round < kRounds; ++round) {  // no wait between rounds: everything is in flight at once
    for (std::size_t i = 0; i < streamed.size(); ++i) {
      got.emplace_back(DType::bf16, Shape{kRows, n}, gpu().device);
      stream.acquire(ctx, int(i));
      streamed[i].forward(ctx, x.view(), {}, got.back());
      stream.release(ctx, int(i));
    }
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(golden::same_bits(to_cpu(got[i]), to_cpu(want[i % want.size()]))) << "product " << i;
  }
}

}  // namespace
}  // namespace octavo
