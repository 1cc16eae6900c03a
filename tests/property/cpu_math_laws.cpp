// Laws of cpu/: the exponential against float64, row loops against their definitions, packing, conversions.
#include "cpu/exp.h"

#include "cpu/convert.h"
#include "cpu/panel_kernel.h"
#include "cpu/row_math.h"
#include "octavo/error.h"
#include "property/op_support.h"

namespace octavo {
namespace {

using test::Random;

TEST(CpuMath, exp_is_within_three_half_ulps) {  // cpu/exp.h derives 3 · 2^-24
  double worst = 0;
  std::vector<float> x, y;
  for (std::uint32_t bits = 0; bits < 0x42b00000u; bits += 977) {  // up to 88, both signs, all magnitudes
    for (const std::uint32_t sign : {0u, 0x80000000u}) x.push_back(std::bit_cast<float>(bits | sign));
  }
  for (const float value : x) {
    const double exact = std::exp(double(value));
    if (exact < 0x1p-126) continue;
    worst = std::max(worst, std::fabs(double(cpu::exp_of(value)) / exact - 1.0));
    if (value <= 0 && value >= -87.0f) worst = std::max(worst, std::fabs(double(cpu::exp_of_nonpositive(value)) / exact - 1.0));
  }
  EXPECT_LE(worst, 3.0 * 0x1p-24);
  RecordProperty("worst_in_2^-24", std::to_string(worst * 0x1p24));
}

TEST(CpuMath, exp_at_the_edges) {
  EXPECT_EQ(cpu::exp_of(0.0f), 1.0f);
  EXPECT_EQ(cpu::exp_of(-0.0f), 1.0f);
  EXPECT_EQ(cpu::exp_of(-INFINITY), 0.0f);
  EXPECT_EQ(cpu::exp_of(-1000.0f), 0.0f);
  EXPECT_EQ(cpu::exp_of(INFINITY), INFINITY);
  EXPECT_EQ(cpu::exp_of(1000.0f), INFINITY);
  EXPECT_TRUE(std::isnan(cpu::exp_of(NAN)));
  EXPECT_LT(cpu::exp_of(88.7f), INFINITY);
  EXPECT_EQ(cpu::exp_of_nonpositive(0.0f), 1.0f);
  EXPECT_EQ(cpu::exp_of_nonpositive(-INFINITY), 0.0f);
  EXPECT_EQ(cpu::exp_of_nonpositive(-1e30f), 0.0f);
  EXPECT_TRUE(std::isnan(cpu::exp_of_nonpositive(NAN)));
  for (float x = -103.9f; x < -87.0f; x += 0.01f) EXPECT_NEAR(double(cpu::exp_of(x)), std::exp(double(x)), 0x1p-149 + 3 * 0x1p-24 * std::exp(double(x))) << x;
}

TEST(CpuMath, vector_loops_equal_single_calls) {  // whatever the register, every length, every tail
  Random random(1);
  for (int count = 0; count < 70; ++count) {
    std::vector<float> x(std::size_t(count) + 1), up(x.size());
    for (float& value : x) value = 5 * random.normal();
    for (float& value : up) value = random.normal();
    std::vector<float> p = x, s = x, m = x;
    cpu::exp_and_sum(p.data(), count, 30.0f);
    cpu::silu(s.data(), count);
    cpu::silu_mul(m.data(), up.data(), count);
    for (std::size_t i = 0; i < std::size_t(count); ++i) {
      ASSERT_EQ(p[i], cpu::exp_of_nonpositive(x[i] - 30.0f));
      ASSERT_EQ(s[i], x[i] / (1.0f + cpu::exp_of(-x[i])));
      ASSERT_EQ(m[i], x[i] / (1.0f + cpu::exp_of(-x[i])) * up[i]);
    }
    ASSERT_EQ(p.back(), x.back());  // nothing past the end
  }
}

TEST(CpuMath, sums_keep_the_documented_order) {
  Random random(2);
  for (const int count : {1, 15, 16, 17, 31, 100, 511, 512, 513, 1025, 4608}) {
    std::vector<float> x(static_cast<std::size_t>(count));
    for (float& value : x) value = random.normal();
    float lane[16] = {}, square[16] = {};
    for (int first = 0; first < count; first += int(cpu::kSumBlock)) {
      float block[16] = {}, block_square[16] = {};
      for (int k = first; k < std::min(count, first + int(cpu::kSumBlock)); ++k) {
        const float centered = x[std::size_t(k)] - 0.25f;
        block[k % 16] += x[std::size_t(k)];
        block_square[k % 16] += centered * centered;
      }
      for (int i = 0; i < 16; ++i) {
        lane[i] += block[i];
        square[i] += block_square[i];
      }
    }
    for (int width = 8; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) {
        lane[i] += lane[i + width];
        square[i] += square[i + width];
      }
    }
    EXPECT_EQ(cpu::sum(x.data(), count), lane[0]);
    EXPECT_EQ(cpu::sum_squares(x.data(), count, 0.25f), square[0]);
  }
}

// Numbers of one sign: each of the 32 + K/512 + 4 additions that a number goes through rounds by at most 2^-24 of the sum.
TEST(CpuMath, sums_of_squares_stay_exact_on_long_rows) {
  Random random(3);
  std::vector<float> x(53248);
  for (float& value : x) value = random.normal();
  double exact = 0;
  for (const float value : x) exact += double(value) * double(value);
  const double count = double(x.size());
  EXPECT_NEAR(double(cpu::sum_squares(x.data(), std::int64_t(x.size()), 0.0f)) / exact, 1.0, 0x1p-24 * (1 + 32 + count / 512 + 4));
}

TEST(CpuMath, max_ignores_nan_and_finds_every_position) {
  for (int count = 1; count < 40; ++count) {
    for (int at = 0; at < count; ++at) {
      std::vector<float> x(std::size_t(count), -3.0f);
      x[std::size_t(at)] = -1.0f;
      if (at > 0) x[0] = NAN;
      ASSERT_EQ(cpu::max_of(x.data(), count), -1.0f) << count << " " << at;
    }
  }
  EXPECT_EQ(cpu::max_of(nullptr, 0), -INFINITY);
}

TEST(CpuMath, codes_equal_the_definition) {
  Random random(3);
  for (const int count : {1, 7, 16, 33, 4608}) {
    for (const float scale : {1.0f, 1e-30f, 1e30f, 1e-42f, 0.0f}) {
      for (const float poison : {0.0f, NAN, INFINITY, -INFINITY}) {
        std::vector<float> x(static_cast<std::size_t>(count));
        for (float& value : x) value = scale * random.normal();
        if (poison != 0.0f) x[std::size_t(count / 2)] = poison;
        if (count > 20) x[3] = 2.5f / 127.0f * x[4];  // near a tie
        std::vector<std::int8_t> fast(x.size(), 55), plain(x.size(), 66);
        const float fast_scale = cpu::quantize_row(x.data(), count, fast.data());
        const float plain_scale = quantize_row(x.data(), count, plain.data());
        EXPECT_EQ(fast, plain);
        EXPECT_TRUE(fast_scale == plain_scale || (std::isnan(fast_scale) && std::isnan(plain_scale)));
      }
    }
  }
}

TEST(CpuMath, ties_round_to_even) {
  std::vector<float> x = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, -127.0f};
  std::vector<std::int8_t> q(x.size());
  EXPECT_EQ(cpu::quantize_row(x.data(), std::int64_t(x.size()), q.data()), 1.0f);
  EXPECT_EQ(q, (std::vector<std::int8_t>{127, 0, 2, 2, 0, -2, -2, -127}));
}

TEST(CpuMath, rotation_equals_the_definition) {
  Random random(4);
  for (const int group : {4, 16, 64, 256, 1024}) {
    std::vector<float> x(std::size_t(3 * group));
    for (float& value : x) value = random.normal();
    std::vector<float> plain = x;
    cpu::rotate_row(x.data(), 3 * group, group);
    rotate_row(plain.data(), 3 * group, group);
    EXPECT_EQ(x, plain) << group;
  }
}

TEST(CpuMath, conversions_equal_the_definition_for_every_pattern) {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = std::uint16_t(i);
  std::vector<float> fast(65536), plain(65536);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    cpu::load_floats(patterns.data(), dtype, 65536, fast.data());
    load_as_float(patterns.data(), dtype, 65536, plain.data());
    for (std::size_t i = 0; i < patterns.size(); ++i) ASSERT_TRUE(fast[i] == plain[i] || (std::isnan(fast[i]) && std::isnan(plain[i]))) << i;
  }
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 65521) values.push_back(std::bit_cast<float>(std::uint32_t(bits)));
  for (std::uint32_t high = 0; high < 65536; ++high) {  // exactly between two bf16, and just beside
    for (const std::uint32_t low : {0x7fffu, 0x8000u, 0x8001u}) values.push_back(std::bit_cast<float>(high << 16 | low));
  }
  std::vector<std::uint16_t> left(values.size()), right(values.size());
  cpu::store_floats(values.data(), std::int64_t(values.size()), DType::bf16, left.data());
  store_from_float(values.data(), std::int64_t(values.size()), DType::bf16, right.data());
  EXPECT_EQ(left, right);
}

TEST(CpuMath, interleave_of_every_member_is_a_transposition) {
  for (const cpu::Isa isa : test::runnable_isas()) {
    const cpu::PanelKernel<float>& kernel = cpu::f32_kernel(isa);
    for (int width = 1; width <= kernel.columns; ++width) {
      if (width > kernel.rows && width != kernel.columns) continue;
      for (int rows = 1; rows <= width; ++rows) {
        for (const std::int64_t units : {1, 7, 8, 9, 16, 17, 40}) {
          const std::int64_t stride = units + 3;
          std::vector<std::uint32_t> from(std::size_t(rows * stride)), to(std::size_t(units * width + cpu::kPackSlack), 0xdeadbeef);
          for (std::size_t i = 0; i < from.size(); ++i) from[i] = std::uint32_t(i + 1);
          cpu::interleave(isa, from.data(), stride, rows, units, width, to.data());
          for (std::int64_t u = 0; u < units; ++u) {
            for (int row = 0; row < width; ++row) {
              ASSERT_EQ(to[std::size_t(u * width + row)], row < rows ? from[std::size_t(row * stride + u)] : 0u)
                  << name_of(isa) << " " << width << " " << rows << " " << units;
            }
          }
        }
      }
    }
  }
}

TEST(CpuIsa, names_lead_back_and_unknown_ones_are_refused) {
  for (const cpu::Isa isa : {cpu::Isa::plain, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::vnni, cpu::Isa::amx}) {
    if (isa <= cpu::best_isa()) {
      EXPECT_EQ(cpu::isa_named(name_of(isa)), isa);
    } else {
      EXPECT_THROW(cpu::isa_named(name_of(isa)), InvalidArgument);
    }
  }
  EXPECT_THROW(cpu::isa_named("sse9"), InvalidArgument);
}

}  // namespace
}  // namespace octavo
