// Laws of attention, conv2d and group_norm on the CPU: fast against plain, plain against float64 loops, independence of rows and threads.
#include "octavo/error.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_backend.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_backend.h"
#include "ops/group_norm/group_norm.h"
#include "property/op_support.h"

namespace octavo {
namespace {

using test::Cpu;
using test::Random;
using test::same_bits;
using test::Strided;
using test::within;

// ------------------------------------------------------------------------------------------------ attention

struct AttentionCase {
  std::int64_t queries, keys;
  int heads, kv_heads;
  std::int64_t head_dim;
  bool causal;
};

const AttentionCase kAttention[] = {{1, 1, 1, 1, 1, false},      {1, 70, 2, 1, 8, false},    {5, 3, 4, 2, 16, false},
                                    {64, 64, 4, 4, 32, true},    {57, 57, 6, 2, 40, true},   {130, 200, 2, 2, 33, false},
                                    {33, 1100, 2, 1, 64, false}, {700, 700, 1, 1, 16, true}, {113, 113, 3, 1, 256, false}};

// What float32 can do to softmax(s q·k) v, s = softmax_scale. A score errs by (D + 1) 2^-24 s Σ |q k|, so with S the largest of s Σ |q k| a
// probability errs relatively by about (D + 1) S 2^-24 and 4 roundings of exp and scale; the sums over keys add their own K roundings, twice.
// Everything is relative to Σ p |v| <= max |v|.
float attention_bound(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionCase& c, float softmax_scale) {
  const Tensor qs = to_float_tensor(q), ks = to_float_tensor(k), vs = to_float_tensor(v);
  double largest_score = 0, largest_value = 0;
  for (std::int64_t i = 0; i < c.queries; ++i) {
    for (int h = 0; h < c.heads; ++h) {
      for (std::int64_t j = 0; j < c.keys; ++j) {
        double sum = 0;
        for (std::int64_t d = 0; d < c.head_dim; ++d) {
          sum += std::fabs(double(qs.as<float>()[(i * c.heads + h) * c.head_dim + d]) *
                           double(ks.as<float>()[(j * c.kv_heads + h / (c.heads / c.kv_heads)) * c.head_dim + d]));
        }
        largest_score = std::max(largest_score, double(softmax_scale) * sum);
      }
    }
  }
  for (std::int64_t i = 0; i < vs.shape().elements(); ++i) largest_value = std::max(largest_value, double(std::fabs(vs.as<float>()[i])));
  return float(2.0 * largest_value * 0x1p-24 * (2.0 * double(c.head_dim + 1) * largest_score + 2.0 * double(c.keys) + 10.0));
}

TEST(AttentionLaws, plain_is_the_formula_in_float64) {
  Random random(1);
  for (const AttentionCase& c : kAttention) {
    const float softmax_scale = 1.0f / std::sqrt(float(c.head_dim));
    const Tensor q = random.floats(DType::f32, {c.queries, c.heads * c.head_dim}), k = random.floats(DType::f32, {c.keys, c.kv_heads * c.head_dim});
    const Tensor v = random.floats(DType::f32, {c.keys, c.kv_heads * c.head_dim}), y(DType::f32, {c.queries, c.heads * c.head_dim});
    Cpu reference(1, true);
    attention(reference, q, k, v, {.heads = c.heads, .kv_heads = c.kv_heads, .softmax_scale = softmax_scale, .causal = c.causal}, y);
    Tensor expected(DType::f32, {c.queries, c.heads * c.head_dim});
    std::vector<double> p(static_cast<std::size_t>(c.keys));
    for (std::int64_t i = 0; i < c.queries; ++i) {
      for (int h = 0; h < c.heads; ++h) {
        const std::int64_t kv = h / (c.heads / c.kv_heads);
        const std::int64_t seen = c.causal ? i + 1 : c.keys;
        double total = 0;
        for (std::int64_t j = 0; j < seen; ++j) {
          double dot = 0;
          for (std::int64_t d = 0; d < c.head_dim; ++d) {
            dot += double(q.as<float>()[(i * c.heads + h) * c.head_dim + d]) * double(k.as<float>()[(j * c.kv_heads + kv) * c.head_dim + d]);
          }
          p[std::size_t(j)] = std::exp(double(softmax_scale) * dot);
          total += p[std::size_t(j)];
        }
        for (std::int64_t d = 0; d < c.head_dim; ++d) {
          double sum = 0;
          for (std::int64_t j = 0; j < seen; ++j) sum += p[std::size_t(j)] * double(v.as<float>()[(j * c.kv_heads + kv) * c.head_dim + d]);
          expected.as<float>()[(i * c.heads + h) * c.head_dim + d] = float(sum / total);
        }
      }
    }
    EXPECT_TRUE(within(y, expected, {attention_bound(q, k, v, c, softmax_scale)})) << c.queries << " " << c.keys;
  }
}

TEST(AttentionLaws, fast_is_within_the_bound_of_plain) {
  Random random(2);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const AttentionCase& c : kAttention) {
      const AttentionArgs args{.heads = c.heads, .kv_heads = c.kv_heads, .softmax_scale = 1.0f / std::sqrt(float(c.head_dim)), .causal = c.causal};
      const Tensor q = random.floats(dtype, {c.queries, c.heads * c.head_dim}), k = random.floats(dtype, {c.keys, c.kv_heads * c.head_dim});
      const Tensor v = random.floats(dtype, {c.keys, c.kv_heads * c.head_dim});
      const Tensor expected(DType::f32, {c.queries, c.heads * c.head_dim}), y(DType::f32, {c.queries, c.heads * c.head_dim});
      attention_cpu(q, k, v, args, expected);
      const float bound = 2 * attention_bound(q, k, v, c, args.softmax_scale);
      for (const cpu::Isa isa : test::runnable_isas()) {
        Cpu cpu(3);
        attention_cpu_fast(cpu, q, k, v, args, y, isa);
        EXPECT_TRUE(within(y, expected, {bound})) << name_of(isa) << " " << name_of(dtype) << " " << c.queries << " " << c.keys;
      }
    }
  }
}

TEST(AttentionLaws, row_does_not_depend_on_other_queries_or_threads) {
  Random random(3);
  const AttentionArgs args{.heads = 4, .kv_heads = 2, .softmax_scale = 0.2f};
  const Tensor q = random.floats(DType::f32, {150, 4 * 24}), k = random.floats(DType::f32, {90, 2 * 24}), v = random.floats(DType::f32, {90, 2 * 24});
  const Tensor all(DType::f32, {150, 96});
  Cpu one(1);
  attention(one, q, k, v, args, all);
  for (const int threads : {2, 3, 5}) {
    Cpu many(threads);
    const Tensor y(DType::f32, {150, 96});
    attention(many, q, k, v, args, y);
    EXPECT_TRUE(same_bits(y, all)) << threads;
  }
  for (const std::int64_t first : {0, 1, 55, 149}) {
    const Tensor row(DType::f32, {1, 96});
    attention(one, q.view().row_range(first, 1), k, v, args, row);
    EXPECT_TRUE(same_bits(row, all.view().row_range(first, 1))) << first;
  }
}

TEST(AttentionLaws, causal_row_does_not_see_later_keys) {
  Random random(4);
  const AttentionArgs args{.heads = 2, .kv_heads = 1, .softmax_scale = 0.3f, .causal = true};
  const Tensor q = random.floats(DType::f32, {80, 32}), k = random.floats(DType::f32, {80, 16}), v = random.floats(DType::f32, {80, 16});
  for (const bool reference : {true, false}) {
    Cpu cpu(2, reference);
    const Tensor before(DType::f32, {80, 32}), after(DType::f32, {80, 32}), shorter(DType::f32, {50, 32});
    attention(cpu, q, k, v, args, before);
    attention(cpu, q.view().row_range(0, 50), k.view().row_range(0, 50), v.view().row_range(0, 50), args, shorter);
    EXPECT_TRUE(same_bits(shorter, before.view().row_range(0, 50)));
    const Tensor bad_k = to_float_tensor(k), bad_v = to_float_tensor(v);
    std::fill_n(bad_k.as<float>() + 50 * 16, 30 * 16, NAN);
    std::fill_n(bad_v.as<float>() + 50 * 16, 30 * 16, NAN);
    attention(cpu, q, bad_k, bad_v, args, after);
    EXPECT_TRUE(same_bits(after.view().row_range(0, 50), before.view().row_range(0, 50)));
    EXPECT_TRUE(std::isnan(after.as<float>()[50 * 32]));
  }
}

TEST(AttentionLaws, slices_of_a_fused_buffer_equal_dense) {
  Random random(5);
  Cpu cpu;
  const AttentionArgs args{.heads = 2, .kv_heads = 2, .softmax_scale = 0.25f};
  const Tensor qkv = random.floats(DType::bf16, {40, 3 * 32});
  const TensorView q = qkv.view().column_range(0, 32), k = qkv.view().column_range(32, 32), v = qkv.view().column_range(64, 32);
  const auto dense = [](const TensorView& view) {
    Tensor copy(view.dtype, {view.rows(), view.columns()});
    for (std::int64_t m = 0; m < view.rows(); ++m) std::memcpy(copy.view().row_bytes(m), view.row_bytes(m), std::size_t(view.columns()) * 2);
    return copy;
  };
  const Tensor a(DType::bf16, {40, 32}), b(DType::bf16, {40, 32});
  attention(cpu, q, k, v, args, a);
  attention(cpu, dense(q), dense(k), dense(v), args, b);
  EXPECT_TRUE(same_bits(a, b));
}

TEST(AttentionLaws, huge_scores_do_not_overflow) {
  Cpu cpu;
  Tensor q(DType::f32, {1, 4}), k(DType::f32, {2, 4}), v(DType::f32, {2, 4}), y(DType::f32, {1, 4});
  std::fill_n(q.as<float>(), 4, 1e4f);
  std::fill_n(k.as<float>(), 4, 1e4f);
  std::fill_n(k.as<float>() + 4, 4, -1e4f);
  std::fill_n(v.as<float>(), 4, 3.0f);
  std::fill_n(v.as<float>() + 4, 4, 5.0f);
  attention(cpu, q, k, v, {.heads = 1, .kv_heads = 1, .softmax_scale = 1.0f}, y);
  for (int d = 0; d < 4; ++d) EXPECT_EQ(y.as<float>()[d], 3.0f);
}

TEST(AttentionErrors, heads_and_masks_that_do_not_fit) {
  Cpu cpu;
  const Tensor q = Tensor::zeros(DType::f32, {4, 32}), k = Tensor::zeros(DType::f32, {5, 16}), y(DType::f32, {4, 32});
  EXPECT_THROW(attention(cpu, q, k, k, {.heads = 3, .kv_heads = 1, .softmax_scale = 1}, y), InvalidArgument);
  EXPECT_THROW(attention(cpu, q, k, k, {.heads = 4, .kv_heads = 3, .softmax_scale = 1}, y), InvalidArgument);
  EXPECT_THROW(attention(cpu, q, k, k, {.heads = 2, .kv_heads = 1, .softmax_scale = 1, .causal = true}, y), InvalidArgument);
  const Tensor none(DType::f32, {0, 16});
  EXPECT_THROW(attention(cpu, q, none, none, {.heads = 2, .kv_heads = 1, .softmax_scale = 1}, y), InvalidArgument);
}

// ------------------------------------------------------------------------------------------------ conv2d

struct ConvCase {
  std::int64_t height, width, in, out, kernel_h, kernel_w;
  ConvArgs args;
};

const ConvCase kConvs[] = {{1, 1, 1, 1, 1, 1, {}},
                           {9, 7, 5, 6, 1, 1, {}},
                           {8, 11, 4, 33, 3, 3, {.pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1}},
                           {9, 8, 3, 7, 3, 3, {.stride = 2, .pad_bottom = 1, .pad_right = 1}},  // the encoder's asymmetric padding
                           {6, 5, 16, 20, 3, 3, {.pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1, .upsample_nearest_2x = true}},
                           {7, 9, 2, 4, 2, 5, {.stride = 3, .pad_top = 2, .pad_left = 0, .pad_bottom = 1, .pad_right = 3}},
                           {12, 12, 64, 48, 3, 3, {.pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1}},
                           {5, 5, 3, 2, 1, 1, {.stride = 2}},
                           {40, 30, 8, 3, 3, 3, {.pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1}}};

Shape conv_output(const ConvCase& c) {
  const std::int64_t enlarge = c.args.upsample_nearest_2x ? 2 : 1;
  return {(c.height * enlarge + c.args.pad_top + c.args.pad_bottom - c.kernel_h) / c.args.stride + 1,
          (c.width * enlarge + c.args.pad_left + c.args.pad_right - c.kernel_w) / c.args.stride + 1, c.out};
}

// The input as it is meant: enlarged and padded, in float64.
std::vector<double> padded_input(const Tensor& x, const ConvCase& c, std::int64_t& rows, std::int64_t& columns) {
  const std::int64_t enlarge = c.args.upsample_nearest_2x ? 2 : 1;
  rows = c.height * enlarge + c.args.pad_top + c.args.pad_bottom;
  columns = c.width * enlarge + c.args.pad_left + c.args.pad_right;
  std::vector<double> padded(std::size_t(rows * columns * c.in), 0.0);
  for (std::int64_t i = 0; i < c.height * enlarge; ++i) {
    for (std::int64_t j = 0; j < c.width * enlarge; ++j) {
      for (std::int64_t ch = 0; ch < c.in; ++ch) {
        padded[std::size_t(((i + c.args.pad_top) * columns + j + c.args.pad_left) * c.in + ch)] =
            double(x.as<float>()[((i / enlarge) * c.width + j / enlarge) * c.in + ch]);
      }
    }
  }
  return padded;
}

TEST(ConvLaws, plain_and_fast_are_the_sum_over_a_padded_map) {
  Random random(6);
  for (const ConvCase& c : kConvs) {
    const Tensor x = random.floats(DType::f32, {c.height, c.width, c.in}), weight = random.floats(DType::f32, {c.out, c.kernel_h, c.kernel_w, c.in});
    const Tensor bias = random.floats(DType::f32, {c.out});
    const Shape shape = conv_output(c);
    const Tensor residual = random.floats(DType::f32, shape), y(DType::f32, shape);
    const std::int64_t k_count = c.kernel_h * c.kernel_w * c.in;
    std::int64_t rows = 0, columns = 0;
    const std::vector<double> padded = padded_input(x, c, rows, columns);
    Tensor expected(DType::f32, shape);
    std::vector<float> bound;
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      for (std::int64_t j = 0; j < shape[1]; ++j) {
        for (std::int64_t o = 0; o < c.out; ++o) {
          const std::int64_t index = (i * shape[1] + j) * c.out + o;
          double sum = double(bias.as<float>()[o]) + double(residual.as<float>()[index]);
          double magnitude = std::fabs(double(bias.as<float>()[o])) + std::fabs(double(residual.as<float>()[index]));
          for (std::int64_t a = 0; a < c.kernel_h; ++a) {
            for (std::int64_t b = 0; b < c.kernel_w; ++b) {
              for (std::int64_t ch = 0; ch < c.in; ++ch) {
                const double term = padded[std::size_t(((i * c.args.stride + a) * columns + j * c.args.stride + b) * c.in + ch)] *
                                    double(weight.as<float>()[((o * c.kernel_h + a) * c.kernel_w + b) * c.in + ch]);
                sum += term;
                magnitude += std::fabs(term);
              }
            }
          }
          expected.as<float>()[index] = float(sum);
          bound.push_back(float(magnitude * double(k_count + 3) * 0x1p-24));  // K multiply-adds, bias, residual, the rounding of `expected`
        }
      }
    }
    const ConvWeights w{.weight = weight, .bias = bias};
    conv2d_cpu(x, w, c.args, residual, y);
    EXPECT_TRUE(within(y, expected, bound)) << "plain " << shape.text();
    for (const cpu::Isa isa : test::runnable_isas()) {
      Cpu cpu(3);
      std::memset(y.as<void>(), 0xff, y.bytes());
      conv2d_cpu_fast(cpu, x, w, c.args, residual, y, isa);
      EXPECT_TRUE(within(y, expected, bound)) << name_of(isa) << " " << shape.text();
    }
  }
}

TEST(ConvLaws, other_dtypes_and_no_bias) {
  Random random(7);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const ConvCase& c : kConvs) {
      const Tensor x = random.floats(dtype, {c.height, c.width, c.in}), weight = random.floats(DType::bf16, {c.out, c.kernel_h, c.kernel_w, c.in});
      const Shape shape = conv_output(c);
      const Tensor plain(dtype, shape), fast(dtype, shape);
      Cpu reference(1, true), cpu(2);
      conv2d(reference, x, {.weight = weight}, c.args, std::nullopt, plain);
      conv2d(cpu, x, {.weight = weight}, c.args, std::nullopt, fast);
      // Sums of K products of numbers below 6 in magnitude differ by 2 K 2^-24 · 36 K; one step of the stored type more.
      const double k_count = double(c.kernel_h * c.kernel_w * c.in);
      const Tensor magnitude = to_float_tensor(plain);
      std::vector<float> bound;
      for (std::int64_t i = 0; i < shape.elements(); ++i) {
        bound.push_back(float(2.0 * double(test::store_eps(dtype)) * std::fabs(double(magnitude.as<float>()[i])) + 2.0 * k_count * k_count * 36.0 * 0x1p-24));
      }
      EXPECT_TRUE(within(fast, plain, bound)) << name_of(dtype) << " " << shape.text();
    }
  }
}

TEST(ConvLaws, pixel_does_not_depend_on_threads) {
  Random random(8);
  const Tensor x = random.floats(DType::f32, {37, 41, 12}), weight = random.floats(DType::f32, {20, 3, 3, 12});
  const ConvArgs args{.pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
  const Tensor expected(DType::f32, {37, 41, 20});
  Cpu one(1);
  conv2d(one, x, {.weight = weight}, args, std::nullopt, expected);
  for (const int threads : {2, 3, 5}) {
    Cpu many(threads);
    const Tensor y(DType::f32, {37, 41, 20});
    conv2d(many, x, {.weight = weight}, args, std::nullopt, y);
    EXPECT_TRUE(same_bits(y, expected)) << threads;
  }
}

TEST(ConvErrors, say_the_size_that_y_must_have) {
  Cpu cpu;
  const Tensor x = Tensor::zeros(DType::f32, {4, 4, 2}), weight = Tensor::zeros(DType::f32, {3, 3, 3, 2}), y(DType::f32, {4, 4, 3});
  try {
    conv2d(cpu, x, {.name = "decoder.conv_in", .weight = weight}, {}, std::nullopt, y);
    FAIL() << "without padding a 3×3 kernel leaves 2×2 pixels";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("decoder.conv_in"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("[2, 2, 3]"), std::string::npos) << error.what();
  }
  const Tensor wide = Tensor::zeros(DType::f32, {3, 5, 5, 2});
  EXPECT_THROW(conv2d(cpu, x, {.weight = wide}, {}, std::nullopt, y), InvalidArgument);
}

// ------------------------------------------------------------------------------------------------ group_norm

TEST(GroupNormLaws, plain_and_fast_are_the_formula) {
  Random random(9);
  for (const auto& [height, width, channels, groups] : {std::tuple{1, 1, 4, 2}, {5, 7, 12, 3}, {33, 31, 32, 32}, {20, 40, 64, 4}, {3, 3, 8, 1}}) {
    for (const bool silu : {false, true}) {
      const Tensor x = random.floats(DType::f32, {height, width, channels}, 3.0f), weight = random.floats(DType::f32, {channels}),
                   bias = random.floats(DType::f32, {channels});
      const GroupNormArgs args{.weight = weight, .bias = bias, .groups = groups, .eps = 1e-6f, .silu = silu};
      const int pixels = height * width, group_channels = channels / groups;
      Tensor expected(DType::f32, {height, width, channels});
      std::vector<float> bound(std::size_t(pixels * channels));
      for (int g = 0; g < groups; ++g) {
        double sum = 0, squares = 0;
        for (int i = 0; i < pixels * group_channels; ++i) sum += double(x.as<float>()[i / group_channels * channels + g * group_channels + i % group_channels]);
        const double mean = sum / (pixels * group_channels);
        for (int i = 0; i < pixels * group_channels; ++i) {
          const double centered = double(x.as<float>()[i / group_channels * channels + g * group_channels + i % group_channels]) - mean;
          squares += centered * centered;
        }
        const double inv_deviation = 1.0 / std::sqrt(squares / (pixels * group_channels) + 1e-6);
        for (int i = 0; i < pixels * group_channels; ++i) {
          const int c = g * group_channels + i % group_channels;
          const int index = i / group_channels * channels + c;
          const double normed = (double(x.as<float>()[index]) - mean) * inv_deviation * double(weight.as<float>()[c]);
          double value = normed + double(bias.as<float>()[c]);
          // mean, difference (of x and mean, which may cancel), deviation, two products, one sum; silu (slope at most 1.1) adds ten.
          const double cancel = (std::fabs(double(x.as<float>()[index])) + std::fabs(mean)) * inv_deviation * std::fabs(double(weight.as<float>()[c]));
          double limit = (cancel * 2.0 + std::fabs(normed) * 4.0 + std::fabs(value)) * 0x1p-24;
          if (silu) {
            value = value / (1.0 + std::exp(-value));
            limit = 1.1 * limit + std::fabs(value) * 10.0 * 0x1p-24;
          }
          expected.as<float>()[index] = float(value);
          bound[std::size_t(index)] = float(limit + std::fabs(value) * 0x1p-24 + 0x1p-126);
        }
      }
      for (const bool reference : {true, false}) {
        Cpu cpu(3, reference);
        const Tensor y(DType::f32, {height, width, channels});
        group_norm(cpu, x, args, y);
        EXPECT_TRUE(within(y, expected, bound)) << (reference ? "plain " : "fast ") << height << "×" << width << "×" << channels;
      }
    }
  }
}

TEST(GroupNormLaws, in_place_and_any_number_of_threads) {
  Random random(10);
  const Tensor x = random.floats(DType::f32, {40, 40, 24}), weight = random.floats(DType::bf16, {24}), bias = random.floats(DType::bf16, {24});
  const GroupNormArgs args{.weight = weight, .bias = bias, .groups = 6, .eps = 1e-6f, .silu = true};
  Cpu one(1);
  const Tensor expected(DType::f32, {40, 40, 24});
  group_norm(one, x, args, expected);
  for (const int threads : {2, 3, 5}) {
    Cpu many(threads);
    const Tensor y(DType::f32, {40, 40, 24});
    group_norm(many, x, args, y);
    EXPECT_TRUE(same_bits(y, expected)) << threads;
  }
  group_norm(one, x, args, x);
  EXPECT_TRUE(same_bits(x, expected));
}

TEST(GroupNormLaws, rows_of_the_map_one_strip_after_the_other) {
  Random random(11);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool reference : {true, false}) {
      const Tensor x = random.floats(dtype, {23, 17, 24}), weight = random.floats(DType::bf16, {24}), bias = random.floats(DType::f32, {24});
      const GroupNormArgs args{.weight = weight, .bias = bias, .groups = 6, .eps = 1e-6f, .silu = true};
      Cpu cpu(3, reference);
      const Tensor whole(dtype, x.shape()), strips(dtype, x.shape()), statistics(DType::f32, {6, 2});
      group_norm(cpu, x, args, whole);
      group_norm_statistics(cpu, x, args, statistics);
      for (std::int64_t first = 0; first < 23; first += 5) {
        const auto rows = [&](const Tensor& map) {
          const std::int64_t count = std::min<std::int64_t>(5, 23 - first);
          return TensorView(map.view().row_bytes(first * 17), dtype, {count, 17, 24});
        };
        group_norm_apply(cpu, rows(x), args, statistics, rows(strips));
      }
      EXPECT_TRUE(same_bits(strips, whole)) << name_of(dtype) << (reference ? ", plain" : ", fast");
    }
  }
}

TEST(GroupNormErrors, statistics_of_another_map) {
  Cpu cpu;
  const Tensor x = Tensor::zeros(DType::f32, {2, 2, 8}), vector = Tensor::zeros(DType::f32, {8}), y(DType::f32, {2, 2, 8});
  const GroupNormArgs args{.weight = vector, .bias = vector, .groups = 4, .eps = 1e-6f};
  for (const Tensor* wrong : {&x, &vector, &y}) {
    EXPECT_THROW(group_norm_statistics(cpu, x, args, *wrong), InvalidArgument);
    EXPECT_THROW(group_norm_apply(cpu, x, args, *wrong, y), InvalidArgument);
  }
}

TEST(GroupNormErrors, groups_that_do_not_divide) {
  Cpu cpu;
  const Tensor x = Tensor::zeros(DType::f32, {2, 2, 10}), vector = Tensor::zeros(DType::f32, {10}), y(DType::f32, {2, 2, 10});
  EXPECT_THROW(group_norm(cpu, x, {.weight = vector, .bias = vector, .groups = 4, .eps = 1e-6f}, y), InvalidArgument);
  EXPECT_THROW(group_norm(cpu, x, {.weight = vector, .bias = vector, .groups = 0, .eps = 1e-6f}, y), InvalidArgument);
}

}  // namespace
}  // namespace octavo
