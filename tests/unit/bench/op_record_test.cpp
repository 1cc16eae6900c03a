#include "pipeline/op_record.h"

#include <gtest/gtest.h>

#include "octavo/error.h"

namespace octavo {
namespace {

DeviceCaps some_gpu() {
  DeviceCaps caps{.name = "some", .sm = 90, .sm_count = 1};
  caps.clock_khz = 1000;  // 1 MHz: 4096 int8 multiply-adds are a microsecond
  caps.memory_bus_bits = 8;
  caps.memory_clock_khz = 500000;  // 1 GB/s
  return caps;
}

TimedOp product(const std::string& name, std::int64_t m, double seconds) {
  return {.work = {.op = "linear", .name = name, .m = m, .n = 2, .k = 2, .math = DType::s8, .macs = 4096, .bytes = 1}, .kernel = "tile", .seconds = seconds};
}

TEST(OpRecord, numbers_in_names_become_stars) {
  EXPECT_EQ(without_numbers("layers.13.attention.o"), "layers.*.attention.o");
  EXPECT_EQ(without_numbers("decoder.up_blocks.0.resnets.2.conv1"), "decoder.up_blocks.*.resnets.*.conv1");
  EXPECT_EQ(without_numbers("w2"), "w2");
  EXPECT_EQ(without_numbers("7"), "*");
  EXPECT_EQ(without_numbers(""), "");
  EXPECT_EQ(without_numbers("a."), "a.");
}

// Median over passes first, so that one late pass does not count; then the mean over layers.
TEST(OpRecord, median_of_passes_mean_of_layers_less_the_clock) {
  const std::vector<std::vector<TimedOp>> passes{{product("layers.0.o", 3, 12e-6), product("layers.1.o", 3, 22e-6), product("layers.1.o", 4, 7e-6)},
                                                 {product("layers.0.o", 3, 500e-6), product("layers.1.o", 3, 23e-6), product("layers.1.o", 4, 7e-6)},
                                                 {product("layers.0.o", 3, 11e-6), product("layers.1.o", 3, 21e-6), product("layers.1.o", 4, 7e-6)}};
  const std::vector<OpRow> rows = rows_of("conditional", passes, 2e-6, some_gpu());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "layers.*.o");
  EXPECT_EQ(rows[0].count, 2);
  EXPECT_NEAR(rows[0].seconds, ((12e-6 - 2e-6) + (22e-6 - 2e-6)) / 2, 1e-12);
  EXPECT_NEAR(rows[0].limit_seconds, 1e-6, 1e-12);
  EXPECT_EQ(rows[0].limit, "tensor cores");
  EXPECT_EQ(rows[0].part, "conditional");
  EXPECT_EQ(rows[1].m, 4);
  EXPECT_NEAR(rows[1].seconds, 5e-6, 1e-12);
}

TEST(OpRecord, an_op_shorter_than_the_clock_takes_no_negative_time) {
  const std::vector<std::vector<TimedOp>> passes{{product("o", 3, 1e-6)}};
  EXPECT_EQ(rows_of("vae", passes, 2e-6, some_gpu()).at(0).seconds, 0);
}

TEST(OpRecord, passes_that_differ_are_a_bug) {
  const std::vector<std::vector<TimedOp>> passes{{product("o", 3, 1e-6)}, {}};
  EXPECT_THROW(rows_of("vae", passes, 0, some_gpu()), InternalError);
}

TEST(ModelRun, image_and_gaps) {
  ModelRun run;
  run.steps = 10;
  run.encode.median = 1;
  run.prepare_seconds = 2;
  run.step.median = 0.5;
  run.decode.median = 3;
  EXPECT_EQ(run.image_seconds(), 11);
  run.rows = {{.part = "conditional", .count = 2, .seconds = 0.1}, {.part = "guidance", .count = 1, .seconds = 0.2}, {.part = "vae", .count = 1, .seconds = 9}};
  EXPECT_NEAR(run.step_ops_seconds(), 0.4, 1e-12);
  EXPECT_NEAR(run.gap_share(), 0.2, 1e-12);
  run.rows[0].macs = 1;
  EXPECT_NEAR(run.overhead_share(), 0.6, 1e-12);  // all but 2 x 0.1 of 0.5
}

}  // namespace
}  // namespace octavo
