// How much work an op is, what a GPU allows for it, and that every op says so.
#include "ops/op_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "golden/random_model.h"
#include "ops/attention/attention.h"
#include "ops/conv2d/conv2d.h"
#include "ops/gated_act/gated_act.h"
#include "ops/linear/linear.h"
#include "ops/norm_modulate/norm_modulate.h"
#include "ops/op_limit.h"
#include "ops/quantize/quantize_rows.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;

class Listener final : public OpTimer {
 public:
  void begin(const ExecContext& /*ctx*/, OpWork work) override {
    ++open;
    ops.push_back(std::move(work));
  }
  void end(const ExecContext& /*ctx*/) override { --open; }
  void ran(std::string_view /*kernel*/) override {}

  int open = 0;
  std::vector<OpWork> ops{};
};

class OpWorkTest : public ::testing::Test {
 protected:
  ThreadPool pool{1};
  Arena scratch{Device{}};
  Listener listener{};
  ExecContext ctx{.device = {}, .pool = &pool, .scratch = &scratch, .timer = &listener};

  OpWork only() {
    EXPECT_EQ(listener.open, 0);
    EXPECT_EQ(listener.ops.size(), 1u);
    const OpWork work = listener.ops.at(0);
    listener.ops.clear();
    return work;
  }
};

TEST_F(OpWorkTest, linear_float_and_int8) {
  const Tensor x = golden::random_rows({3, 8}, 1), w = golden::random_rows({5, 8}, 2), y(DType::f32, {3, 5});
  linear(ctx, x, LinearWeights{.name = "layers.0.o", .weight = w}, {}, y);
  const OpWork work = only();
  EXPECT_EQ(work.op, "linear");
  EXPECT_EQ(work.name, "layers.0.o");
  EXPECT_THAT((std::vector<std::int64_t>{work.m, work.n, work.k}), ElementsAre(3, 5, 8));
  EXPECT_EQ(work.macs, 3 * 5 * 8);
  EXPECT_EQ(work.bytes, 4 * (3 * 8 + 5 * 8 + 3 * 5));
  EXPECT_EQ(work.math, DType::f32);

  const Tensor w16 = Tensor::zeros(DType::bf16, {5, 8});
  linear(ctx, x, LinearWeights{.name = "a", .weight = w16}, {}, y);
  const OpWork parts = only();
  EXPECT_EQ(parts.math, DType::bf16);
  EXPECT_EQ(parts.macs, 3 * 3 * 5 * 8);

  const Tensor q = Tensor::zeros(DType::s8, {3, 8}), scale = Tensor::zeros(DType::f32, {3}), w8 = Tensor::zeros(DType::s8, {5, 8}),
               w_scale = Tensor::zeros(DType::f32, {5});
  linear(ctx, QuantizedView{q, scale}, LinearWeights{.name = "a", .weight = w8, .scale = w_scale.view()}, {}, y);
  const OpWork int8 = only();
  EXPECT_EQ(int8.math, DType::s8);
  EXPECT_EQ(int8.out, DType::f32);
  EXPECT_EQ(int8.bytes, 3 * 8 + 5 * 8 + 4 * 3 * 5);
}

TEST_F(OpWorkTest, attention_counts_both_products_and_half_of_them_if_causal) {
  const Tensor q = golden::random_rows({6, 16}, 1), k = golden::random_rows({6, 8}, 2), v = golden::random_rows({6, 8}, 3), y(DType::f32, {6, 16});
  const AttentionArgs args{.heads = 4, .kv_heads = 2, .softmax_scale = 1};
  attention(ctx, q, k, v, args, y);
  const OpWork work = only();
  EXPECT_EQ(work.macs, 2 * 6 * 6 * 16);
  EXPECT_EQ(work.bytes, 4 * 6 * (16 + 8 + 8 + 16));
  AttentionArgs causal = args;
  causal.causal = true;
  attention(ctx, q, k, v, causal, y);
  EXPECT_EQ(only().macs, 6 * 6 * 16);
}

TEST_F(OpWorkTest, convolution_is_a_product) {
  const Tensor x = Tensor::zeros(DType::f32, {4, 6, 3}), w = Tensor::zeros(DType::f32, {5, 3, 3, 3}), y(DType::f32, {4, 6, 5});
  conv2d(ctx, x, {.name = "conv", .weight = w}, {.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1}, std::nullopt, y);
  const OpWork work = only();
  EXPECT_THAT((std::vector<std::int64_t>{work.m, work.n, work.k}), ElementsAre(24, 5, 27));
  EXPECT_EQ(work.macs, 24.0 * 5 * 27);
}

TEST_F(OpWorkTest, row_ops_move_every_operand_once) {
  const Tensor x = golden::random_rows({4, 16}, 1), y = golden::random_rows({4, 16}, 2), ones = golden::random_rows({16}, 3);
  const Tensor codes(DType::s8, {4, 16}), scale(DType::f32, {4});
  const QuantizedView out{codes, scale};
  const double rows = 4 * 4 * 16, quantized = 4 * 16 + 4 * 4;
  rms_norm(ctx, x, {.weight = ones, .eps = 1e-5f, .mod_scale = {}}, out);
  EXPECT_EQ(only().bytes, rows + quantized);
  gated_residual_norm(ctx, x, y, ones, {.weight = ones, .eps = 1e-5f, .mod_scale = {}}, {.weight = ones, .eps = 1e-5f, .mod_scale = {}}, out);
  EXPECT_EQ(only().bytes, 3 * rows + quantized);
  quantize_rows(ctx, x, out);
  EXPECT_EQ(only().bytes, rows + quantized);
  silu_mul(ctx, x, y, out);
  EXPECT_EQ(only().bytes, 2 * rows + quantized);
  add_rows(ctx, x, y);
  EXPECT_EQ(only().bytes, 3 * rows);
}

TEST(OpLimit, the_slower_of_work_and_memory) {
  DeviceCaps h200{.name = "H200", .sm = 90, .sm_count = 132};
  h200.clock_khz = 1980000;
  h200.memory_bus_bits = 8000;
  h200.memory_clock_khz = 4800 * 500;
  // The data sheet's dense rates in 10^12 operations per second, at 1.98 GHz instead of its 1.83.
  EXPECT_NEAR(2e-12 * macs_per_second(DType::s8, h200), 1979 * 1980.0 / 1830, 5);
  EXPECT_NEAR(2e-12 * macs_per_second(DType::bf16, h200), 989.4 * 1980.0 / 1830, 5);
  EXPECT_NEAR(bandwidth_of(h200), 4.8e12, 1);
  DeviceCaps ga102{.name = "RTX 3090", .sm = 86, .sm_count = 82};
  ga102.clock_khz = 1695000;
  EXPECT_NEAR(2e-12 * macs_per_second(DType::s8, ga102), 284.7, 0.1);
  EXPECT_NEAR(2e-12 * macs_per_second(DType::bf16, ga102), 71.2, 0.1);
  EXPECT_NEAR(2e-12 * macs_per_second(DType::f32, ga102), 35.6, 0.1);

  const OpLimit product = limit_of({.math = DType::s8, .macs = 4096.0 * 13824 * 4608, .bytes = 1e6}, h200);
  EXPECT_STREQ(product.what, "tensor cores");
  EXPECT_NEAR(product.seconds, 243.7e-6, 0.5e-6);
  const OpLimit rows = limit_of({.math = DType::bf16, .macs = 0, .bytes = 4.8e9}, h200);
  EXPECT_STREQ(rows.what, "memory");
  EXPECT_NEAR(rows.seconds, 1e-3, 1e-9);
}

}  // namespace
}  // namespace octavo
