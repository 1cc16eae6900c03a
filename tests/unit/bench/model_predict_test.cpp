#include "api/model_predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "octavo/error.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

// 1 MHz and one SM: `macs_per_clock` multiply-adds a microsecond. 1 GB/s.
DeviceCaps gpu(const char* name, int sm, std::int64_t memory_gb = 100) {
  DeviceCaps caps{.name = name, .sm = sm, .sm_count = 1};
  caps.clock_khz = 1000;
  caps.memory_bus_bits = 8;
  caps.memory_clock_khz = 500000;
  caps.memory_bytes = memory_gb * 1'000'000'000;
  return caps;
}

// An int8 product takes a microsecond per 1 000 rows anywhere, twice that on sm_86.
double estimate(const OpRow& row, const DeviceCaps& caps) { return 1e-9 * double(row.m) * (caps.sm == 86 ? 2 : 1); }

OpRow product(const char* name, std::int64_t m, int count, double seconds) {
  return {.part = "conditional",
          .op = "linear",
          .name = name,
          .kernel = "tile",
          .math = "s8",
          .out = "bf16",
          .m = m,
          .n = 4,
          .k = 4,
          .count = count,
          .macs = double(m) * 16,
          .bytes = 1,
          .seconds = seconds};
}

ModelRun some_run() {
  ModelRun run;
  run.precision = "w8a8";
  run.model = "some";
  run.caps = gpu("measured", 90);
  run.size = 1024;
  run.steps = 10;
  run.rows = {product("a", 1000, 10, 1.2e-6),
              product("b", 2000, 10, 3.0e-6),
              product("tiny", 10, 1, 1e-6),
              {.part = "unconditional", .op = "rms_norm", .math = "bf16", .m = 5, .k = 5, .count = 1, .bytes = 1000, .seconds = 1.25e-6}};
  run.step.median = run.step_ops_seconds();
  return run;
}

TEST(Predict, factor_of_a_class_is_all_time_over_all_formula) {
  const std::vector<Calibration> factors = calibrate(some_run(), estimate);
  ASSERT_EQ(factors.size(), 2u);
  EXPECT_EQ(factors[0].name, "linear s8");
  EXPECT_NEAR(factors[0].factor.mid, (12e-6 + 30e-6 + 1e-6) / (10e-6 + 20e-6 + 0.01e-6), 1e-9);
  // The tiny op, a hundred times its formula, has 2.3 % of the time: it counts.
  EXPECT_NEAR(factors[0].factor.low, 1.2, 1e-9);
  EXPECT_NEAR(factors[0].factor.high, 100, 1e-6);
  EXPECT_EQ(factors[0].kinds, 3);
  EXPECT_EQ(factors[1].name, "rms_norm");
  EXPECT_NEAR(factors[1].factor.mid, 1.25, 1e-9);
}

TEST(Predict, ops_without_weight_do_not_widen_the_range) {
  ModelRun run = some_run();
  run.rows[2].seconds = 0.5e-6;  // 1.2 % of the class
  EXPECT_NEAR(calibrate(run, estimate)[0].factor.high, 1.5, 1e-9);
}

TEST(Predict, the_measured_gpu_itself_comes_out_as_measured) {
  const ModelRun run = some_run();
  const PredictedRun predicted = predict_run(run, calibrate(run, estimate), run.caps, estimate);
  EXPECT_NEAR(predicted.step.mid, run.step.median, 1e-12);
  EXPECT_LT(predicted.step.low, run.step.median);
  EXPECT_GT(predicted.step.high, run.step.median);
}

TEST(Predict, formula_of_the_other_gpu_times_the_factor) {
  ModelRun run = some_run();
  run.rows.pop_back();
  run.step.median = run.step_ops_seconds() + 7e-6;  // gaps stay as long
  const auto factors = calibrate(run, estimate);
  const PredictedRun predicted = predict_run(run, factors, gpu("ga", 86), estimate);
  EXPECT_NEAR(predicted.step.mid, 2 * 43e-6 + 7e-6, 1e-12);
}

TEST(Predict, attention_of_another_kernel_is_assumed) {
  ModelRun run = some_run();
  run.rows = {{.part = "conditional",
               .op = "attention",
               .kernel = "wgmma",
               .math = "bf16",
               .m = 1,
               .n = 1,
               .k = 256,
               .count = 1,
               .macs = 256e3,
               .bytes = 1,
               .seconds = 9}};
  run.step.median = 9;
  const auto on = [&](int sm) { return predict_run(run, calibrate(run, estimate), gpu("other", sm), estimate).step; };
  // A GeForce takes the int8 one: half of the products at 1024 a clock and SM, half at twice the 256 of float32 sums. A byte twice is nothing here.
  const double int8_limit = 128e3 / (1024 * 1e6) + 128e3 / (512 * 1e6);
  EXPECT_NEAR(on(86).mid, int8_limit / 0.60, 1e-8);
  EXPECT_NEAR(on(86).low, int8_limit / 0.70, 1e-8);
  EXPECT_NEAR(on(86).high, int8_limit / 0.45, 1e-8);
  EXPECT_NEAR(on(80).mid, 256e3 / (1024 * 1e6) / 0.46, 1e-9);  // an A100 stays with bf16
  run.rows[0].k = 96;                                          // a head size that int8 has no body for
  const double limit = 256e3 / (256 * 1e6);                    // 256 bf16 multiply-adds per clock and SM
  EXPECT_NEAR(on(86).mid, limit / 0.83, 1e-9);
  // Turing multiplies it in float16, 256 per clock and SM; float32 rows beside bf16 weights, three products here, are one there, on 64 float32 units per SM.
  EXPECT_NEAR(predict_run(run, calibrate(run, estimate), gpu("tu", 75), estimate).step.mid, limit / 0.40, 1e-9);
  run.rows[0].op = "linear";
  run.rows[0].kernel = "mma.sync, x in three parts";
  EXPECT_NEAR(predict_run(run, calibrate(run, estimate), gpu("tu", 75), estimate).step.mid, 256e3 / 3 / 64e6 / 0.30, 1e-9);
}

TEST(Predict, weights_that_do_not_fit_are_streamed) {
  ModelRun run = some_run();
  run.peak_image_bytes = 21'000'000'000;
  run.used_before_bytes = 1'000'000'000;
  const auto factors = calibrate(run, estimate);
  EXPECT_EQ(predict_run(run, factors, gpu("large", 86, 24), estimate).streamed_bytes, 0);
  const PredictedRun small = predict_run(run, factors, gpu("small", 86, 10), estimate);
  EXPECT_NEAR(small.streamed_bytes, 20e9 - 9.2e9, 1);
  EXPECT_NEAR(small.step.mid, 10.8e9 / 24e9, 1e-9) << "the link, not the work";
  EXPECT_GT(small.step.high, small.step.mid);
}

TEST(Predict, page_says_predicted_and_measured) {
  const ModelRun run = some_run();
  const std::string page = prediction_page({run}, {gpu("other", 86)}, estimate);
  EXPECT_THAT(page, HasSubstr("**Predicted**"));
  EXPECT_THAT(page, HasSubstr("| 1024² | measured, **measured** |"));
  EXPECT_THAT(page, HasSubstr("| 1024² | other |"));
  ModelRun bf16 = run;
  bf16.precision = "bf16";
  EXPECT_THROW(prediction_page({bf16}, {}, estimate), InvalidArgument);
}

}  // namespace
}  // namespace octavo
