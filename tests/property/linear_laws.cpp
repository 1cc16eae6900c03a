// Laws of linear on the CPU. Integers: equality. Floats: bounds from K and Σ |x w|.
#include <cmath>

#include "octavo/error.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_backend.h"
#include "ops/quantize/quantize_rows.h"
#include "property/op_support.h"

namespace octavo {
namespace {

using test::Cpu;
using test::Random;
using test::same_bits;
using test::Strided;
using test::within;

struct Size {
  std::int64_t m, n, k;
};

// One of everything, tile and panel edges of all members (4×8, 6×16, 14×32, 32×32), K that is a multiple of nothing, more than one block of K.
const Size kSizes[] = {{1, 1, 1},     {1, 33, 7},   {2, 8, 3},      {3, 17, 64},    {6, 16, 256},   {7, 31, 257},   {13, 1, 100},   {14, 32, 512},
                       {15, 33, 513}, {24, 64, 40}, {31, 96, 1023}, {32, 32, 1024}, {33, 65, 1025}, {47, 300, 131}, {5, 530, 2100}, {64, 7, 2049}};

// ------------------------------------------------------------------------------------------------ int8

TEST(LinearLaws, every_member_gives_the_same_accumulator) {
  Cpu cpu(3);
  Random random(1);
  for (const Size size : kSizes) {
    const Tensor x = random.codes({size.m, size.k});
    const Tensor w = random.codes({size.n, size.k});
    const Tensor expected(DType::s32, {size.m, size.n});
    linear_accumulate_cpu(x, w, expected);
    for (const cpu::Isa isa : test::runnable_isas()) {
      const Tensor acc = Tensor::zeros(DType::s32, {size.m, size.n});
      linear_accumulate_cpu_fast(cpu, x, w, acc, isa);
      EXPECT_TRUE(same_bits(acc, expected)) << name_of(isa) << " " << size.m << "×" << size.n << "×" << size.k;
    }
  }
}

TEST(LinearLaws, extreme_codes_do_not_saturate) {  // what vpmaddubsw gets wrong
  Cpu cpu;
  for (const int x_code : {-128, -127, 127}) {
    for (const int w_code : {-128, -127, 127}) {
      const std::int64_t k = 2051;
      Tensor x(DType::s8, {3, k});
      Tensor w(DType::s8, {5, k});
      std::memset(x.as<void>(), x_code, x.bytes());
      std::memset(w.as<void>(), w_code, w.bytes());
      for (const cpu::Isa isa : test::runnable_isas()) {
        const Tensor acc(DType::s32, {3, 5});
        linear_accumulate_cpu_fast(cpu, x, w, acc, isa);
        for (int i = 0; i < 15; ++i) ASSERT_EQ(acc.as<std::int32_t>()[i], x_code * w_code * k) << name_of(isa);
      }
    }
  }
}

TEST(LinearLaws, longest_exact_k) {
  Cpu cpu;
  Tensor x(DType::s8, {1, kMaxExactK});
  Tensor w(DType::s8, {2, kMaxExactK});
  std::memset(x.as<void>(), 127, x.bytes());
  std::memset(w.as<void>(), 127, std::size_t(kMaxExactK));
  std::memset(w.as<std::int8_t>() + kMaxExactK, -127, std::size_t(kMaxExactK));
  for (const cpu::Isa isa : test::runnable_isas()) {
    const Tensor acc(DType::s32, {1, 2});
    linear_accumulate_cpu_fast(cpu, x, w, acc, isa);
    EXPECT_EQ(acc.as<std::int32_t>()[0], 127 * 127 * kMaxExactK) << name_of(isa);
    EXPECT_EQ(acc.as<std::int32_t>()[1], -127 * 127 * kMaxExactK) << name_of(isa);
  }
}

// A W8A8 layer with random weights and everything that an epilogue can hold.
struct QuantizedLayer {
  Tensor weight, scale, bias, mod_gate, residual, x_q, x_scale;
  LinearWeights w{};
  QuantizedView x{};

  QuantizedLayer(Random& random, Size size, DType dtype)
      : weight(random.codes({size.n, size.k})),
        scale(random.floats(DType::f32, {size.n}, 0.01f)),
        bias(random.floats(DType::bf16, {size.n})),
        mod_gate(random.floats(DType::f32, {size.n})),
        residual(random.floats(dtype, {size.m, size.n})),
        x_q(random.codes({size.m, size.k}, -127)),
        x_scale(random.floats(DType::f32, {size.m}, 0.01f)) {
    w = {.name = "layer", .weight = weight, .scale = scale};
    x = {.q = x_q, .scale = x_scale};
  }
};

TEST(LinearLaws, quantised_linear_is_the_formula) {
  Random random(2);
  for (const Size size : kSizes) {
    const QuantizedLayer layer(random, size, DType::f32);
    LinearWeights w = layer.w;
    w.bias = layer.bias;
    const Tensor acc(DType::s32, {size.m, size.n});
    linear_accumulate_cpu(layer.x_q, layer.weight, acc);
    Tensor expected(DType::bf16, {size.m, size.n});
    for (std::int64_t m = 0; m < size.m; ++m) {
      for (std::int64_t n = 0; n < size.n; ++n) {
        const float scaled = (float(acc.as<std::int32_t>()[m * size.n + n]) * layer.x_scale.as<float>()[m]) * layer.scale.as<float>()[n];
        expected.as<bf16>()[m * size.n + n] = to_bf16(scaled + to_float(layer.bias.as<bf16>()[n]));
      }
    }
    for (const bool reference : {true, false}) {
      Cpu cpu(3, reference);
      const Tensor y(DType::bf16, {size.m, size.n});
      linear(cpu, layer.x, w, {}, y);
      EXPECT_TRUE(same_bits(y, expected)) << size.m << "×" << size.n << "×" << size.k << (reference ? " plain" : " fast");
    }
  }
}

TEST(LinearLaws, quantised_fast_equals_plain_with_every_epilogue) {
  Random random(3);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const Size size : kSizes) {
      const QuantizedLayer layer(random, size, dtype);
      LinearWeights w = layer.w;
      w.bias = layer.bias;
      const Epilogue epilogue{.activation = Activation::silu, .mod_gate = layer.mod_gate, .residual = layer.residual};
      const Tensor expected(dtype, {size.m, size.n});
      const Tensor y(dtype, {size.m, size.n});
      linear_cpu(layer.x, w, epilogue, expected);
      for (const cpu::Isa isa : test::runnable_isas()) {
        Cpu cpu;
        linear_cpu_fast(cpu, layer.x, w, epilogue, y, isa);
        EXPECT_TRUE(same_bits(y, expected)) << name_of(isa) << " " << size.m << "×" << size.n << "×" << size.k;
      }
    }
  }
}

// The epilogue silu_mul is two projections and SwiGLU's product; float32 throughout, so a few roundings of exp apart (4 of 2^-23 relative).
TEST(LinearLaws, silu_mul_joins_neighbouring_rows) {
  Random random(31);
  for (const Size size : {Size{1, 2, 1}, Size{3, 18, 64}, Size{33, 130, 257}}) {
    const QuantizedLayer layer(random, size, DType::f32);
    const Tensor both(DType::f32, {size.m, size.n});
    linear_cpu(layer.x, layer.w, {}, both);
    for (const bool reference : {true, false}) {
      Cpu cpu(3, reference);
      const Tensor y(DType::f32, {size.m, size.n / 2});
      linear(cpu, layer.x, layer.w, {.activation = Activation::silu_mul}, y);
      for (std::int64_t i = 0; i < size.m * size.n / 2; ++i) {
        const double gate = double(both.as<float>()[2 * i]), up = double(both.as<float>()[2 * i + 1]);
        const double want = gate / (1 + std::exp(-gate)) * up;
        ASSERT_NEAR(double(y.as<float>()[i]), want, 5e-7 * std::abs(want) + 1e-30) << size.n << " at " << i;
      }
    }
    Cpu cpu;
    const Tensor y(DType::f32, {size.m, size.n / 2});
    EXPECT_THROW(linear(cpu, layer.x, layer.w, {.activation = Activation::silu_mul, .mod_gate = layer.mod_gate}, y), InvalidArgument);
    EXPECT_THROW(linear(cpu, layer.x, layer.w, {.activation = Activation::silu_mul}, layer.residual.view()), InvalidArgument);  // N columns, not N/2
  }
}

TEST(LinearLaws, halves_of_alternating_rows_are_two_products) {
  Random random(13);
  for (const Size size : {Size{5, 46, 40}, Size{1, 2, 7}, Size{19, 64, 131}}) {
    const QuantizedLayer layer(random, size, DType::f32);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor both(dtype, {size.m, size.n}), y(dtype, {size.m, size.n});
      linear_cpu(layer.x, layer.w, {}, both);
      Cpu cpu;
      linear_halves(cpu, layer.x, layer.w, y);
      const std::int64_t half = size.n / 2, bytes = std::int64_t(bytes_of(dtype));
      for (std::int64_t m = 0; m < size.m; ++m) {
        for (std::int64_t n = 0; n < size.n; ++n) {
          const std::int64_t to = m * size.n + n % 2 * half + n / 2;
          ASSERT_EQ(std::memcmp(y.as<std::byte>() + to * bytes, both.as<std::byte>() + (m * size.n + n) * bytes, std::size_t(bytes)), 0) << m << " " << n;
        }
      }
    }
    Cpu cpu;
    LinearWeights biased = layer.w;
    biased.bias = layer.bias;
    EXPECT_THROW(linear_halves(cpu, layer.x, biased, layer.residual), InvalidArgument);
    EXPECT_THROW(linear(cpu, layer.x, layer.w, {.factor = 2}, layer.residual), InvalidArgument) << "a factor beside int8";
  }
  Cpu cpu;
  const QuantizedLayer odd(random, {3, 7, 16}, DType::f32);
  EXPECT_THROW(linear_halves(cpu, odd.x, odd.w, odd.residual), InvalidArgument);
}

// One pass for projection, head norm and RoPE is a GPU's; a CPU says no and touches nothing, but wrong sizes are refused everywhere.
TEST(LinearLaws, a_cpu_leaves_head_norm_and_rope_to_their_op) {
  Cpu cpu;
  Random random(32);
  const QuantizedLayer layer(random, {3, 24, 16}, DType::f32);
  const Tensor norm = random.floats(DType::f32, {4}), cos = random.floats(DType::f32, {3, 2}), sin = random.floats(DType::f32, {3, 2});
  const HeadNormRope heads{.norm_q = norm, .norm_k = norm, .eps = 1e-5f, .cos = cos, .sin = sin};
  const Tensor y = random.floats(DType::f32, {3, 24}), before = to_float_tensor(y);
  EXPECT_FALSE(linear_head_norm_rope(cpu, layer.x, layer.w, heads, y));
  EXPECT_TRUE(same_bits(y, before));
  const Tensor odd_norm = random.floats(DType::f32, {5}), short_sin = random.floats(DType::f32, {2, 2});
  HeadNormRope wrong = heads;
  wrong.norm_q = odd_norm;
  EXPECT_THROW(linear_head_norm_rope(cpu, layer.x, layer.w, wrong, y), InvalidArgument);
  wrong = heads;
  wrong.sin = short_sin;
  EXPECT_THROW(linear_head_norm_rope(cpu, layer.x, layer.w, wrong, y), InvalidArgument);
}

TEST(LinearLaws, nan_row_and_zero_row_stay_in_their_rows) {
  Cpu cpu;
  Random random(4);
  const Size size{5, 40, 77};
  Tensor x = random.floats(DType::f32, {size.m, size.k});
  std::fill_n(x.as<float>() + 1 * size.k, size.k, 0.0f);
  x.as<float>()[3 * size.k + 9] = NAN;
  const Tensor q(DType::s8, {size.m, size.k});
  const Tensor scale(DType::f32, {size.m});
  quantize_rows(cpu, x, {.q = q, .scale = scale});
  const QuantizedLayer layer(random, size, DType::f32);
  const Tensor y(DType::f32, {size.m, size.n});
  linear(cpu, QuantizedView{.q = q, .scale = scale}, layer.w, {}, y);
  for (std::int64_t m = 0; m < size.m; ++m) {
    for (std::int64_t n = 0; n < size.n; ++n) {
      const float value = y.as<float>()[m * size.n + n];
      EXPECT_EQ(std::isnan(value), m == 3) << "row " << m;
      if (m == 1) {
        EXPECT_EQ(value, 0.0f);
      }
    }
  }
}

TEST(LinearLaws, strided_codes_equal_dense) {
  Random random(5);
  const Size size{19, 45, 131};
  const QuantizedLayer layer(random, size, DType::f32);
  const Strided x_q(layer.x_q, 3, 10), weight(layer.weight, 5, 1);
  const Tensor wide = Tensor::zeros(DType::f32, {size.m, size.n + 9});
  const TensorView y = wide.view().column_range(4, size.n);
  const Tensor expected(DType::f32, {size.m, size.n});
  linear_cpu(layer.x, layer.w, {}, expected);
  LinearWeights w = layer.w;
  w.weight = weight.view();
  for (const cpu::Isa isa : test::runnable_isas()) {
    Cpu cpu;
    linear_cpu_fast(cpu, QuantizedView{.q = x_q.view(), .scale = layer.x_scale}, w, {}, y, isa);
    EXPECT_TRUE(same_bits(y, expected)) << name_of(isa);
    for (std::int64_t m = 0; m < size.m; ++m) {  // nothing was written beside the window
      for (std::int64_t n : {std::int64_t(0), std::int64_t(3), size.n + 4, size.n + 8}) ASSERT_EQ(wide.as<float>()[m * (size.n + 9) + n], 0.0f);
    }
  }
}

// ------------------------------------------------------------------------------------------------ float

// Two chains of K multiply-adds with different roundings differ by at most 2 · K · 2^-24 · Σ |x w|, plus one rounding when stored.
std::vector<float> float_bound(const TensorView& x, const TensorView& w, DType out) {
  const Tensor xs = to_float_tensor(x), ws = to_float_tensor(w);
  const std::int64_t k_count = x.columns();
  std::vector<float> bound;
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    for (std::int64_t n = 0; n < w.rows(); ++n) {
      double magnitude = 0;
      for (std::int64_t k = 0; k < k_count; ++k) magnitude += std::fabs(double(xs.as<float>()[m * k_count + k]) * double(ws.as<float>()[n * k_count + k]));
      bound.push_back(float(magnitude * (2.0 * double(k_count) * double(test::kEpsF32) + (out == DType::f32 ? 0.0 : 2.0 * double(test::store_eps(out))))));
    }
  }
  return bound;
}

TEST(LinearLaws, float_fast_is_within_the_bound_of_plain) {
  Random random(6);
  for (const DType x_type : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType w_type : {DType::f32, DType::bf16, DType::f16}) {
      for (const Size size : kSizes) {
        const Tensor x = random.floats(x_type, {size.m, size.k});
        const Tensor weight = random.floats(w_type, {size.n, size.k});
        const LinearWeights w{.weight = weight};
        const Tensor expected(x_type, {size.m, size.n});
        linear_cpu(x, w, {}, expected);
        const std::vector<float> bound = float_bound(x, weight, x_type);
        for (const cpu::Isa isa : test::runnable_isas()) {
          Cpu cpu;
          const Tensor y(x_type, {size.m, size.n});
          linear_cpu_fast(cpu, x, w, {}, y, isa);
          EXPECT_TRUE(within(y, expected, bound)) << name_of(isa) << " " << size.m << "×" << size.n << "×" << size.k;
        }
      }
    }
  }
}

TEST(LinearLaws, fused_members_are_one_chain_and_equal_each_other) {  // so a tile's shape cannot be seen in the result
  Random random(7);
  for (const Size size : kSizes) {
    const Tensor x = random.floats(DType::f32, {size.m, size.k});
    const Tensor weight = random.floats(DType::f32, {size.n, size.k});
    Tensor expected(DType::f32, {size.m, size.n});
    for (std::int64_t m = 0; m < size.m; ++m) {
      for (std::int64_t n = 0; n < size.n; ++n) {
        float sum = 0;
        for (std::int64_t k = 0; k < size.k; ++k) sum = std::fma(x.as<float>()[m * size.k + k], weight.as<float>()[n * size.k + k], sum);
        expected.as<float>()[m * size.n + n] = sum;
      }
    }
    for (const cpu::Isa isa : test::runnable_isas()) {
      if (isa == cpu::Isa::plain) continue;
      Cpu cpu;
      const Tensor y(DType::f32, {size.m, size.n});
      linear_cpu_fast(cpu, x, LinearWeights{.weight = weight}, {}, y, isa);
      EXPECT_TRUE(same_bits(y, expected)) << name_of(isa) << " " << size.m << "×" << size.n << "×" << size.k;
    }
  }
}

TEST(LinearLaws, float_epilogue_is_applied_in_order) {
  Random random(8);
  const Size size{9, 70, 33};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = random.floats(dtype, {size.m, size.k});
    const Tensor weight = random.floats(DType::f32, {size.n, size.k});
    const Tensor bias = random.floats(DType::f16, {size.n});
    const Tensor mod_gate = random.floats(DType::f32, {size.n});
    const Tensor residual = random.floats(dtype, {size.m, size.n});
    const Epilogue epilogue{.activation = Activation::silu, .mod_gate = mod_gate, .residual = residual};
    for (const bool reference : {true, false}) {
      Cpu cpu(2, reference);
      const Tensor sums(DType::f32, {size.m, size.n});
      linear(cpu, x, {.weight = weight}, {}, sums);
      Tensor expected(dtype, {size.m, size.n});
      for (std::int64_t i = 0; i < size.m * size.n; ++i) {
        float v = sums.as<float>()[i] + to_float(bias.as<f16>()[i % size.n]);
        v = v / (1.0f + std::exp(-v));
        v *= mod_gate.as<float>()[i % size.n];
        v += to_float_tensor(residual).as<float>()[i];
        store_from_float(&v, 1, dtype, expected.as<std::byte>() + std::size_t(i) * bytes_of(dtype));
      }
      const Tensor y(dtype, {size.m, size.n});
      linear(cpu, x, {.weight = weight, .bias = bias}, epilogue, y);
      EXPECT_TRUE(same_bits(y, expected)) << (reference ? "plain" : "fast");
      const Tensor stream(dtype, {size.m, size.n});  // y may be the residual itself
      std::memcpy(stream.as<void>(), residual.as<void>(), residual.bytes());
      linear(cpu, x, {.weight = weight, .bias = bias}, {.activation = Activation::silu, .mod_gate = mod_gate, .residual = stream}, stream);
      EXPECT_TRUE(same_bits(stream, expected)) << (reference ? "plain" : "fast") << " in place";
    }
  }
}

TEST(LinearLaws, row_result_does_not_depend_on_other_rows) {
  Random random(9);
  Cpu cpu(2);
  const Size size{70, 530, 1030};
  const Tensor x = random.floats(DType::f32, {size.m, size.k});
  const Tensor weight = random.floats(DType::bf16, {size.n, size.k});
  const LinearWeights w{.weight = weight};
  for (const cpu::Isa isa : test::runnable_isas()) {
    const Tensor all(DType::f32, {size.m, size.n});
    linear_cpu_fast(cpu, x, w, {}, all, isa);
    for (const std::int64_t first : {0, 1, 13, 41, 69}) {
      for (const std::int64_t count : {1, 2, 14, 29}) {
        if (first + count > size.m) continue;
        const Tensor part(DType::f32, {count, size.n});
        linear_cpu_fast(cpu, x.view().row_range(first, count), w, {}, part, isa);
        EXPECT_TRUE(same_bits(part, all.view().row_range(first, count))) << name_of(isa) << " rows " << first << " + " << count;
      }
    }
  }
}

TEST(LinearLaws, row_does_not_notice_a_nan_neighbour) {
  Random random(10);
  Cpu cpu(2);
  const Size size{20, 37, 100};
  Tensor x = random.floats(DType::f32, {size.m, size.k});
  const Tensor weight = random.floats(DType::f32, {size.n, size.k});
  const Tensor before(DType::f32, {size.m, size.n}), after(DType::f32, {size.m, size.n});
  linear(cpu, x, {.weight = weight}, {}, before);
  std::fill_n(x.as<float>() + 7 * size.k, size.k, NAN);
  linear(cpu, x, {.weight = weight}, {}, after);
  for (std::int64_t m = 0; m < size.m; ++m) {
    if (m == 7) {
      EXPECT_TRUE(std::isnan(after.as<float>()[m * size.n]));
    } else {
      EXPECT_TRUE(same_bits(after.view().row_range(m, 1), before.view().row_range(m, 1))) << m;
    }
  }
}

TEST(LinearLaws, number_of_threads_changes_no_bit) {
  Random random(11);
  for (const Size size : {Size{1, 700, 300}, Size{50, 64, 700}, Size{1500, 40, 530}, Size{29, 1100, 1300}}) {
    const Tensor x = random.floats(DType::f32, {size.m, size.k});
    const Tensor weight = random.floats(DType::f32, {size.n, size.k});
    const QuantizedLayer layer(random, size, DType::f32);
    Cpu one(1);
    const Tensor y_1(DType::f32, {size.m, size.n}), q_1(DType::f32, {size.m, size.n});
    linear(one, x, {.weight = weight}, {}, y_1);
    linear(one, layer.x, layer.w, {}, q_1);
    for (const int threads : {2, 3, 5, 33}) {
      Cpu many(threads);
      const Tensor y(DType::f32, {size.m, size.n}), q(DType::f32, {size.m, size.n});
      linear(many, x, {.weight = weight}, {}, y);
      linear(many, layer.x, layer.w, {}, q);
      EXPECT_TRUE(same_bits(y, y_1)) << threads;
      EXPECT_TRUE(same_bits(q, q_1)) << threads;
    }
  }
}

TEST(LinearLaws, strided_floats_equal_dense) {
  Random random(12);
  Cpu cpu;
  const Size size{17, 50, 70};
  const Tensor x = random.floats(DType::bf16, {size.m, size.k});
  const Tensor weight = random.floats(DType::f32, {size.n, size.k});
  const Strided x_wide(x, 2, 5), w_wide(weight, 1, 3);
  const Tensor dense(DType::f32, {size.m, size.n}), wide(DType::f32, {size.m, size.n + 6});
  linear(cpu, x, {.weight = weight}, {}, dense);
  linear(cpu, x_wide.view(), {.weight = w_wide.view()}, {}, wide.view().column_range(5, size.n));
  EXPECT_TRUE(same_bits(wide.view().column_range(5, size.n), dense));
}

TEST(LinearLaws, no_rows_and_no_columns) {
  Cpu cpu;
  Random random(13);
  const Tensor x(DType::f32, {0, 8}), y(DType::f32, {0, 4}), weight = random.floats(DType::f32, {4, 8});
  EXPECT_NO_THROW(linear(cpu, x, {.weight = weight}, {}, y));
  const Tensor bias = random.floats(DType::f32, {4});
  const Tensor empty_x(DType::f32, {3, 0}), empty_w(DType::f32, {4, 0}), out(DType::f32, {3, 4});
  linear(cpu, empty_x, {.weight = empty_w, .bias = bias}, {}, out);  // an empty sum is 0
  for (int i = 0; i < 12; ++i) EXPECT_EQ(out.as<float>()[i], bias.as<float>()[i % 4]);
}

// ------------------------------------------------------------------------------------------------ errors

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(LinearErrors, say_who_what_and_sizes) {
  Cpu cpu;
  Random random(14);
  const Tensor x = random.floats(DType::f32, {3, 8}), w = random.floats(DType::f32, {4, 9}), y(DType::f32, {3, 4});
  const std::string wrong_k = message_of([&] { linear(cpu, x, {.name = "blocks.3.mlp.w2", .weight = w}, {}, y); });
  EXPECT_NE(wrong_k.find("linear 'blocks.3.mlp.w2'"), std::string::npos) << wrong_k;
  EXPECT_NE(wrong_k.find("[4, 9]"), std::string::npos) << wrong_k;

  const QuantizedLayer layer(random, {2, 3, 16}, DType::f32);
  const Tensor out(DType::f32, {2, 3});
  LinearWeights rotated = layer.w;
  rotated.rotation_group = 16;
  EXPECT_NE(message_of([&] { linear(cpu, layer.x, rotated, {}, out); }).find("rotated in groups of 0"), std::string::npos);
  LinearWeights unscaled = layer.w;
  unscaled.scale.reset();
  EXPECT_NE(message_of([&] { linear(cpu, layer.x, unscaled, {}, out); }).find("no scale"), std::string::npos);
  EXPECT_NE(message_of([&] { linear(cpu, x, layer.w, {}, out); }).find("quantise x"), std::string::npos);

  TensorView short_stride = x;
  short_stride.row_stride = 7;
  const Tensor w8 = random.floats(DType::f32, {4, 8});
  EXPECT_NE(message_of([&] { linear(cpu, short_stride, {.weight = w8}, {}, y); }).find("row stride of 7"), std::string::npos);
  TensorView nowhere = x;
  nowhere.data = nullptr;
  EXPECT_NE(message_of([&] { linear(cpu, nowhere, {.weight = w8}, {}, y); }).find("null pointer"), std::string::npos);

  const Tensor square = random.floats(DType::f32, {8, 8});
  EXPECT_NE(message_of([&] { linear(cpu, square, {.weight = square}, {}, square); }).find("same memory"), std::string::npos);

  const Tensor long_x = Tensor::zeros(DType::s8, {1, kMaxExactK + 1}), long_w = Tensor::zeros(DType::s8, {1, kMaxExactK + 1}), acc(DType::s32, {1, 1});
  EXPECT_NE(message_of([&] { linear_accumulate(cpu, long_x, long_w, acc); }).find("133144"), std::string::npos);
}

}  // namespace
}  // namespace octavo
