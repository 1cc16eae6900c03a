// 'octavo bench model' on a model of a few million parameters: every part is measured, nothing is allocated or waited for inside a step, and the
// weights that it draws on the GPU are the numbers that the CPU draws.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "api/bench.h"
#include "api/budget_report.h"
#include "api/model_report.h"
#include "golden/temporary_model.h"
#include "gpu/gpu_test.h"
#include "models/random_model.h"
#include "nn/linear.h"
#include "ops/random_fill/random_fill.h"
#include "pipeline/budget_bench.h"
#include "pipeline/model_bench.h"
#include "pipeline/model_memory.h"

namespace octavo {
namespace {

using namespace octavo::testing;  // NOLINT
using ::testing::HasSubstr;

class BenchModelCuda : public GpuTest {
 protected:
  // 256 pixels a side: 256 image tokens, with 40 of text no multiple of a tile.
  std::vector<ModelRun> run(const Precision& precision, std::vector<int> sizes, int text) {
    return bench_model(ModelBenchQuestion{
        .model = "ideogram4-tiny", .sizes = std::move(sizes), .text = text, .steps = 4, .precision = precision, .device = gpu().device, .quick = true});
  }
};

TEST_F(BenchModelCuda, random_numbers_equal_the_cpu) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::s8}) {
    ExecContext ctx = gpu_context(), cpu = cpu_context();
    const Tensor on_gpu(dtype, {37, 1001}, gpu().device, "random"), on_cpu(dtype, {37, 1001});
    random_fill(ctx, on_gpu, 0.3f, 77);
    random_fill(cpu, on_cpu, 0.3f, 77);
    EXPECT_EQ(std::memcmp(to_cpu(on_gpu).as<void>(), on_cpu.as<void>(), on_cpu.bytes()), 0) << name_of(dtype);
  }
}

TEST_F(BenchModelCuda, nothing_is_allocated_or_waited_for_inside_a_step) {
  for (const Precision& precision : {precision::w8a8, precision::bf16, precision::fp16}) {
    const std::vector<ModelRun> runs = run(precision, {256, 512}, 40);
    ASSERT_EQ(runs.size(), 2u);
    for (const ModelRun& each : runs) {
      SCOPED_TRACE(std::string(precision.name) + " " + std::to_string(each.size));
      EXPECT_EQ(each.allocations, 0);
      EXPECT_EQ(each.waits, 0);
      EXPECT_EQ(each.host_copies, 0);
      EXPECT_EQ(each.graph_launches, 2);
      EXPECT_GE(each.kernels_recorded, 2 * 2 * 8);  // two branches of two layers of at least eight kernels
    }
  }
}

TEST_F(BenchModelCuda, every_part_and_every_op_is_measured) {
  for (const Precision& precision : {precision::w8a8, precision::bf16, precision::fp16}) {
    const ModelRun result = run(precision, {256}, 40).at(0);
    SCOPED_TRACE(std::string(precision.name));
    for (const double seconds : {result.load_text_seconds, result.load_denoisers_seconds, result.load_vae_seconds, result.encode.median, result.prepare_seconds,
                                 result.conditional.median, result.unconditional.median, result.step.median, result.decode.median, result.op_clock_seconds}) {
      EXPECT_GT(seconds, 0);
      EXPECT_LT(seconds, 60);
    }
    EXPECT_GT(result.step.median, 0.5 * (result.conditional.median + result.unconditional.median));
    EXPECT_GT(result.peak_image_bytes, result.used_before_bytes);
    EXPECT_GT(result.peak_text_bytes, result.used_before_bytes);
    std::set<std::string> parts, ops;
    for (const OpRow& row : result.rows) {
      parts.insert(row.part);
      ops.insert(row.op);
      EXPECT_GT(row.count, 0);
      EXPECT_GE(row.seconds, 0) << row.op;
      EXPECT_LT(row.seconds, 1) << row.op;
      EXPECT_GT(row.limit_seconds, 0) << row.op;
      EXPECT_GT(row.bytes, 0) << row.op;
      if (row.op == "linear" || row.op == "attention" || row.op == "conv2d") {
        EXPECT_FALSE(row.kernel.empty()) << row.op << " " << row.name << " did not say which kernel ran";
        EXPECT_GT(row.macs, 0) << row.op;
      }
    }
    EXPECT_EQ(parts, (std::set<std::string>{"conditional", "guidance", "text encoder", "unconditional", "vae"}));
    for (const char* op :
         {"linear", "attention", "rms_norm", "layer_norm", "gated_residual_norm", "head_norm_rope", "guided_step", "conv2d", "group_norm", "embed_rows"})
      EXPECT_TRUE(ops.contains(op)) << op;
    // Two layers: qkv is one product of 3 x 512 outputs in each, over text and picture.
    const auto is_qkv = [](const OpRow& row) { return row.part == "conditional" && row.name == "layers.*.attention.qkv (+2)"; };
    const auto qkv = std::find_if(result.rows.begin(), result.rows.end(), is_qkv);
    ASSERT_NE(qkv, result.rows.end());
    EXPECT_EQ(qkv->m, 256 + 40);
    EXPECT_EQ(qkv->n, 3 * 512);
    EXPECT_EQ(qkv->k, 512);
    EXPECT_EQ(qkv->count, 2);
    EXPECT_EQ(qkv->math, name_of(precision.weight.storage));
  }
}

TEST_F(BenchModelCuda, without_text) {
  const ModelRun result = run(precision::w8a8, {256}, 0).at(0);
  EXPECT_EQ(result.encode.median, 0);
  EXPECT_GT(result.step.median, 0);
  for (const OpRow& row : result.rows) EXPECT_NE(row.part, "text encoder");
}

TEST_F(BenchModelCuda, report_and_page) {
  const golden::TemporaryFolder temporary;
  const std::filesystem::path page = temporary.path() / "profile.html";
  const std::string text = bench_model(ModelBenchOptions{.model = "ideogram4-tiny",
                                                         .sizes = "256",
                                                         .text = 40,
                                                         .steps = 4,
                                                         .precisions = "w8a8,bf16",
                                                         .quick = true,
                                                         .profile_path = page.string(),
                                                         .format = Format::json});
  const Json report = parse_json(text, "report");
  ASSERT_EQ(report.at("runs").size(), 2u);
  EXPECT_EQ(run_from_json(report.at("runs")[1], "report").precision, "bf16");
  EXPECT_GT(std::filesystem::file_size(page), 4000u);
}

// The pipeline's own run of that model: as everything resident and as everything streamed, within the budget each time, and the same picture.
TEST_F(BenchModelCuda, whole_pictures_within_budgets) {
  for (const Precision& precision : {precision::w8a8, precision::bf16}) {
    constexpr int kText = 40, kSize = 512, kSteps = 4;
    const models::TemporaryRandomModel model("ideogram4-tiny");
    const ModelMemory memory(ModelIndex::read(model.path()), precision::on_gpu(precision), precision::bf16, gpu().device);
    const ResidencyRows rows = memory.rows({.width = kSize, .height = kSize, .steps = kSteps, .text_tokens = kText});
    const std::int64_t least = smallest_budget(memory.weights(), rows);
    const std::int64_t most = evaluate_residency(memory.weights(), rows, {}, 1ll << 40).peak_bytes() + kMarginBytes;
    const BudgetReport report = bench_budgets(BudgetQuestion{.model = "ideogram4-tiny",
                                                             .budgets = {most, least + (most - least) / 2, least},
                                                             .size = kSize,
                                                             .text = kText,
                                                             .steps = kSteps,
                                                             .precision = precision,
                                                             .device = gpu().device});
    std::printf("%s\n", budget_text(report).c_str());
    EXPECT_THAT(problems_of(report), ::testing::IsEmpty()) << "memory is that of the whole GPU: does another program use it?";
    ASSERT_EQ(report.runs.size(), 4u);
    EXPECT_FALSE(report.runs[0].plan->choice.streams());
    EXPECT_TRUE(report.runs[3].plan->choice.streams());
    EXPECT_GT(report.runs[3].copied_bytes_of_step, 0);
    EXPECT_LE(report.runs[3].copied_bytes_of_step, report.runs[3].plan->streamed_bytes) << "of three streamed layers, the one alone in its place stays there";
    for (const BudgetRun& run : report.runs) {
      EXPECT_GT(run.colors, kSize) << "a picture of random weights is noise";
      EXPECT_GT(run.peak_bytes(), report.used_before_bytes);
    }
  }
}

// Random weights of spread 1 / sqrt(K) keep the size of a row: y has spread 1, give or take the 2 % that 64 x 1 024 sums allow. int8 codes mean the same.
TEST_F(BenchModelCuda, drawn_weights_have_the_right_spread) {
  const golden::TemporaryFolder temporary;
  models::write_random_model(temporary.path(), "ideogram4-tiny");
  const WeightStore store(temporary.path() / "transformer", "transformer");
  ThreadPool pool(1);
  for (const Precision& recipe : {precision::bf16, precision::fp16, precision::on_gpu(precision::w8a8)}) {
    ExecContext ctx = gpu_context();
    ctx.draws_weights = true;
    ctx.pool = &pool;
    const nn::Linear linear(ctx, store, {{"layers.0.feed_forward.w1"}}, false, nn::LinearUse(recipe));
    ASSERT_EQ(linear.parts().size(), 1u);
    EXPECT_EQ(linear.parts()[0].weight.dtype, recipe.weight.storage);
    const Tensor x(DType::bf16, {64, 512}, gpu().device, "x"), y(DType::bf16, {64, 1024}, gpu().device, "y");
    random_fill(ctx, x, 1, 5);
    linear.forward(ctx, x.view(), {}, y);
    const Tensor back = to_float_tensor(to_cpu(y));
    double squares = 0;
    for (std::int64_t i = 0; i < back.shape().elements(); ++i) squares += double(back.as<float>()[i]) * double(back.as<float>()[i]);
    EXPECT_NEAR(std::sqrt(squares / double(back.shape().elements())), 1, 0.03) << recipe.name;
  }
}

}  // namespace
}  // namespace octavo
