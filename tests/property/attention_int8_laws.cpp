// Laws of attention_int8: how far codes may be from floats, what they must not depend on, what they must not see.
#include <algorithm>

#include "octavo/error.h"
#include "ops/attention/attention_backend.h"
#include "ops/attention/attention_int8_backend.h"
#include "property/op_support.h"

namespace octavo {
namespace {

using test::Cpu;
using test::kEpsF32;
using test::Random;
using test::same_bits;
using test::store_eps;
using test::Strided;
using test::within;

struct Inputs {
  Tensor q, k, v;
  AttentionArgs args{};
  int head_dim = 0;

  Inputs(Random& random, DType dtype, std::int64_t queries, std::int64_t keys, int heads, int kv_heads, int columns)
      : q(random.floats(dtype, {queries, heads * columns})),
        k(random.floats(dtype, {keys, kv_heads * columns})),
        v(random.floats(dtype, {keys, kv_heads * columns})),
        args{.heads = heads, .kv_heads = kv_heads, .softmax_scale = 1.0f / std::sqrt(float(columns))},
        head_dim(columns) {}

  Tensor result(int threads = 2) const {
    Cpu cpu(threads);
    Tensor y(q.dtype(), {q.shape()[0], q.shape()[1]});
    attention_int8(cpu, q, k, v, args, y.view());
    return y;
  }
};

// The largest that any score of query i, head h can be wrong by, less what all scores of the row share: with |q - s_q q̂| <= s_q/2 and the same for k less its
// mean,
//   |q·k' - (s_q q̂)(s_k k̂)|  <=  s_k/2 Σ|q| + s_q/2 Σ|k'| + D s_q s_k / 4,   and roundings of products up to Σ|q||k'| and of k' itself.
double worst_score_error(const Inputs& in, const AttentionCodes& codes, std::int64_t i, int h) {
  const int kv_head = h / (in.args.heads / in.args.kv_heads);
  const Tensor q = to_float_tensor(in.q), k = to_float_tensor(in.k);
  const double half_q = 0.5001 * double(codes.q_scale.row<float>(h)[i]);  // and the roundings of x · (127 / a), 127 · 3 · 2^-24 of a step
  const std::int64_t keys = in.k.shape()[0], kv_columns = in.k.shape()[1];
  double sum_q = 0, worst = 0;
  for (int d = 0; d < in.head_dim; ++d) sum_q += std::fabs(double(q.view().row<float>(i)[h * in.head_dim + d]));
  for (std::int64_t j = 0; j < keys; ++j) {
    const double half_k = 0.5001 * double(codes.k_scale.row<float>(kv_head)[j]);
    double sum_k = 0, products = 0;
    for (int d = 0; d < in.head_dim; ++d) {
      const double centred = double(codes.k_scale.row<float>(kv_head)[j]) * double(codes.k.row<std::int8_t>(j)[kv_head * in.head_dim + d]);
      sum_k += std::fabs(centred) + half_k;
      products +=
          std::fabs(double(q.view().row<float>(i)[h * in.head_dim + d])) * (std::fabs(double(k.as<float>()[j * kv_columns + kv_head * in.head_dim + d])) + 1.0);
    }
    const double rounding = double(in.head_dim + 8) * double(kEpsF32) * products;
    worst = std::max(worst, double(in.args.softmax_scale) * (half_k * sum_q + half_q * sum_k + half_q * half_k * in.head_dim + rounding));
  }
  return worst;
}

// Scores wrong by at most e change a softmax by factors within e^±2e, so y by at most (e^2e - 1) Σ p|v|; p and v are rounded to float16 once each.
void expect_close_to_floats(const Inputs& in) {
  Cpu cpu;
  ExecContext& ctx = cpu;
  const AttentionCodes codes = scratch_codes(ctx, in.q, in.k, in.args);
  attention_codes_cpu(in.q, in.k, in.v, in.args, codes);
  Tensor magnitudes = to_float_tensor(in.v);
  for (std::int64_t n = 0; n < magnitudes.shape().elements(); ++n) magnitudes.as<float>()[n] = std::fabs(magnitudes.as<float>()[n]);
  const std::int64_t queries = in.q.shape()[0], columns = in.q.shape()[1], keys = in.k.shape()[0];
  const Tensor y = in.result(), exact(DType::f32, {queries, columns}), weight(DType::f32, {queries, columns});
  attention_cpu(in.q, in.k, in.v, in.args, exact.view());
  attention_cpu(in.q, in.k, magnitudes, in.args, weight.view());
  std::vector<float> bound;
  for (std::int64_t i = 0; i < queries; ++i) {
    for (int h = 0; h < in.args.heads; ++h) {
      const double error = worst_score_error(in, codes, i, h);
      // float16: half a step of p and of v; weights below 2^-14 lose up to 2^-25 each of the largest value, of a sum that is at least 1.
      const double relative = std::exp(2 * error) * (1 + 2 * 0x1p-11 + 2 * double(keys + 16) * double(kEpsF32)) - 1;
      const double small = double(keys) * 0x1p-25 / double(codes.v_unit.as<float>()[h / (in.args.heads / in.args.kv_heads)]) * 512;
      for (int d = 0; d < in.head_dim; ++d) {
        const auto at = std::size_t(i * columns + h * in.head_dim + d);
        bound.push_back(
            float(relative * double(weight.as<float>()[at]) + small + std::fabs(double(exact.as<float>()[at])) * double(store_eps(in.q.dtype())) * 1.5));
      }
    }
  }
  EXPECT_TRUE(within(y, exact, bound));
}

TEST(AttentionInt8, is_as_close_to_floats_as_half_a_step_allows) {
  Random random(1);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    expect_close_to_floats(Inputs(random, dtype, 17, 130, 2, 2, 64));
    expect_close_to_floats(Inputs(random, dtype, 9, 65, 4, 2, 32));
    expect_close_to_floats(Inputs(random, dtype, 5, 1, 1, 1, 256));
  }
  expect_close_to_floats(Inputs(random, DType::f32, 3, 70, 1, 1, 7));
}

// The same to a few times what independent errors, even over half a step, are expected to give: a scale or a code in a wrong place would be an error of
// order 1.
TEST(AttentionInt8, relative_error_is_what_independent_roundings_give) {
  Random random(2);
  for (const int head_dim : {64, 256}) {
    const Inputs in(random, DType::f32, 64, 300, 2, 2, head_dim);
    const Tensor y = in.result(), exact(DType::f32, {64, 2 * head_dim});
    attention_cpu(in.q, in.k, in.v, in.args, exact.view());
    double error = 0, size = 0;
    for (std::int64_t n = 0; n < exact.shape().elements(); ++n) {
      error += std::pow(double(y.as<float>()[n]) - double(exact.as<float>()[n]), 2);
      size += std::pow(double(exact.as<float>()[n]), 2);
    }
    // Largest of D Gaussian numbers: below 4.5, so steps are at most 4.5/127, errors 1/√12 of that; 2 D of them times numbers of size 1, over √D.
    const double score_error = 4.5 / 127 / std::sqrt(12.0) * std::sqrt(2.0);
    EXPECT_LE(std::sqrt(error / size), 2 * score_error) << head_dim;
    EXPECT_GT(error, 0) << head_dim;  // codes did run
  }
}

// Exact in float32: k in steps of 1/64 below 4, sums of 128 keys, a division by 128. What is left of k less its mean is the same number.
TEST(AttentionInt8, one_vector_added_to_every_key_changes_no_bit) {
  Random random(3);
  Inputs in(random, DType::f32, 8, 128, 2, 2, 64);
  for (std::int64_t n = 0; n < in.k.shape().elements(); ++n) in.k.as<float>()[n] = std::clamp(std::rint(in.k.as<float>()[n] * 64.0f), -255.0f, 255.0f) / 64.0f;
  const Tensor before = in.result();
  for (std::int64_t n = 0; n < in.k.shape().elements(); ++n) in.k.as<float>()[n] += float(n % 128 % 31) * 0.5f;
  EXPECT_TRUE(same_bits(in.result(), before));
}

// Channels of the keys that lie far from 0 for every key, as trained models have them: without the mean, they would take all of the 127 steps.
TEST(AttentionInt8, a_channel_far_from_zero_costs_nothing) {
  Random random(4);
  Inputs in(random, DType::f32, 20, 200, 1, 1, 64);
  for (std::int64_t j = 0; j < 200; ++j) in.k.as<float>()[j * 64 + 5] += 100.0f;
  expect_close_to_floats(in);
}

TEST(AttentionInt8, a_row_does_not_depend_on_the_others_nor_on_threads_nor_on_strides) {
  Random random(5);
  const Inputs in(random, DType::bf16, 23, 90, 4, 2, 32);
  const Tensor all = in.result(1);
  EXPECT_TRUE(same_bits(in.result(3), all));
  Cpu cpu;
  const Strided q(in.q, 7, 2), k(in.k, 3, 1), v(in.v, 5, 9);
  const Tensor some(DType::bf16, {6, 128});
  attention_int8(cpu, q.view().row_range(11, 6), k.view(), v.view(), in.args, some.view());
  EXPECT_TRUE(same_bits(some, all.view().row_range(11, 6)));
}

TEST(AttentionInt8, values_may_be_huge_or_tiny) {  // float16 ends at 65504 and 2^-24
  Random random(6);
  for (const float factor : {0x1p100f, 0x1p-90f}) {
    Inputs in(random, DType::f32, 4, 70, 1, 1, 64);
    const Tensor before = in.result();
    for (std::int64_t n = 0; n < in.v.shape().elements(); ++n) in.v.as<float>()[n] *= factor;
    const Tensor after = in.result();
    for (std::int64_t n = 0; n < before.shape().elements(); ++n) EXPECT_EQ(after.as<float>()[n], before.as<float>()[n] * factor);
  }
}

TEST(AttentionInt8, units) {
  const auto unit_of = [](float value) { return value_unit(std::bit_cast<std::uint32_t>(value)); };
  for (const float value : {1.0f, 1.99f, 3.0e38f, 1.2e-20f, 0x1p-92f}) {
    const float scaled = value * unit_of(value);
    EXPECT_GE(scaled, 256.0f) << value;
    EXPECT_LT(scaled, 512.0f) << value;
  }
  EXPECT_EQ(unit_of(0x1p-149f), 0x1p100f);
  EXPECT_EQ(unit_of(0.0f), 1.0f);
  EXPECT_EQ(unit_of(INFINITY), 1.0f);
  EXPECT_EQ(unit_of(NAN), 1.0f);
}

TEST(AttentionInt8, a_nan_stays_in_its_query_and_zeros_give_the_mean) {
  Random random(7);
  Inputs in(random, DType::f32, 3, 64, 1, 1, 16);
  in.q.as<float>()[16 + 4] = NAN;
  std::fill_n(in.q.as<float>() + 32, 16, 0.0f);
  const Tensor y = in.result();
  for (int d = 0; d < 16; ++d) {
    EXPECT_TRUE(std::isfinite(y.as<float>()[d]));
    EXPECT_TRUE(std::isnan(y.as<float>()[16 + d]));
    double mean = 0, magnitude = 0;
    for (int j = 0; j < 64; ++j) {
      mean += double(in.v.as<float>()[j * 16 + d]) / 64;
      magnitude += std::fabs(double(in.v.as<float>()[j * 16 + d])) / 64;
    }
    EXPECT_NEAR(double(y.as<float>()[32 + d]), mean, magnitude * (0x1p-11 + 80 * double(kEpsF32)));  // p = 1 is exact; v is rounded to float16
  }
}

TEST(AttentionInt8, what_it_cannot_do_is_refused) {
  Random random(8);
  Cpu cpu;
  Inputs in(random, DType::f32, 4, 4, 1, 1, 16);
  const Tensor y(DType::f32, {4, 16});
  in.args.causal = true;
  EXPECT_THROW(attention_int8(cpu, in.q, in.k, in.v, in.args, y.view()), Unsupported);
  in.args.causal = false;
  in.args.softmax_scale = 0;
  EXPECT_THROW(attention_int8(cpu, in.q, in.k, in.v, in.args, y.view()), InvalidArgument);
}

}  // namespace
}  // namespace octavo
