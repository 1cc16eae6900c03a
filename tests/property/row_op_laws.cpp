// Laws of the ops that work row by row: quantize_rows, norms, gated residual, silu_mul, head_norm_rope, embedding.
#include "octavo/error.h"
#include "ops/embed/embed.h"
#include "ops/gated_act/gated_act.h"
#include "ops/norm_modulate/norm_modulate.h"
#include "ops/quantize/dequantize_rows.h"
#include "ops/quantize/quantize_rows.h"
#include "ops/rope/rope.h"
#include "property/op_support.h"

namespace octavo {
namespace {

using test::Cpu;
using test::Random;
using test::same_bits;
using test::Strided;
using test::within;

constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16};

Tensor copy_of(const TensorView& view) {
  Tensor copy(view.dtype, {view.rows(), view.columns()});
  for (std::int64_t m = 0; m < view.rows(); ++m) std::memcpy(copy.view().row_bytes(m), view.row_bytes(m), std::size_t(view.columns()) * bytes_of(view.dtype));
  return copy;
}

struct Codes {
  Tensor q, scale;
  int group = 0;
  Codes(std::int64_t rows, std::int64_t columns, int rotation = 0) : q(DType::s8, {rows, columns}), scale(DType::f32, {rows}), group(rotation) {}
  operator QuantizedView() const { return {.q = q, .scale = scale, .rotation_group = group}; }  // NOLINT: stands wherever a view is asked for
};

::testing::AssertionResult same_codes(const Codes& a, const Codes& b) {
  const auto q = same_bits(a.q, b.q);
  if (!q) return q;
  return same_bits(a.scale, b.scale);
}

// ------------------------------------------------------------------------------------------------ quantize_rows

TEST(QuantizeRows, fast_equals_plain) {
  Random random(1);
  for (const DType dtype : kFloats) {
    for (const int group : {0, 4, 16, 64}) {
      const Tensor x = random.floats(dtype, {23, 192});
      const Codes plain(23, 192, group), fast(23, 192, group);
      Cpu reference(1, true), cpu(3);
      quantize_rows(reference, x, plain);
      quantize_rows(cpu, x, fast);
      EXPECT_TRUE(same_codes(fast, plain)) << name_of(dtype) << " " << group;
    }
  }
}

TEST(QuantizeRows, smoothed_rows_are_the_rows_smoothed_before) {
  Random random(14);
  const Tensor s = random.floats(DType::f32, {192});
  for (const DType dtype : kFloats) {
    for (const Smoothing way : {Smoothing::divide, Smoothing::multiply}) {
      const Tensor x = random.floats(dtype, {23, 192});
      Tensor smoothed = to_float_tensor(x);
      for (int m = 0; m < 23; ++m) undo_smoothing(smoothed.as<float>() + m * 192, 192, way, s.as<float>());
      const Codes expected(23, 192, 16), plain(23, 192, 16), fast(23, 192, 16);
      Cpu reference(1, true), cpu(3);
      quantize_rows(reference, smoothed, expected);
      quantize_rows(reference, x, plain, {way, s});
      quantize_rows(cpu, x, fast, {way, s});
      EXPECT_TRUE(same_codes(plain, expected)) << name_of(dtype) << " " << int(way);
      EXPECT_TRUE(same_codes(fast, expected)) << name_of(dtype) << " " << int(way);
      EXPECT_THROW(quantize_rows(cpu, x, fast, {way, random.floats(DType::f32, {191})}), InvalidArgument);
    }
  }
}

TEST(DequantizeRows, is_the_product_rounded_once) {
  Random random(15);
  Cpu cpu(3);
  const Tensor x = random.floats(DType::f32, {2000, 96});
  const Codes codes(2000, 96);
  quantize_rows(cpu, x, codes);
  for (const DType dtype : kFloats) {
    const Tensor y(dtype, {2000, 96});
    dequantize_rows(cpu, codes, y);
    for (std::int64_t i = 0; i < 2000 * 96; ++i) {
      const float want = float(codes.q.as<std::int8_t>()[i]) * codes.scale.as<float>()[i / 96];
      float stored = 0, got = 0;
      std::byte rounded[4];
      store_from_float(&want, 1, dtype, rounded);
      load_as_float(rounded, dtype, 1, &stored);
      load_as_float(y.as<std::byte>() + i * std::int64_t(bytes_of(dtype)), dtype, 1, &got);
      ASSERT_EQ(got, stored) << name_of(dtype) << " " << i;
    }
  }
  EXPECT_THROW(dequantize_rows(cpu, codes, Tensor(DType::f32, {2000, 95})), InvalidArgument);
}

TEST(QuantizeRows, all_zero_row_and_nan_row) {
  Cpu cpu;
  Random random(2);
  Tensor x = random.floats(DType::f32, {4, 50});
  std::fill_n(x.as<float>() + 50, 50, 0.0f);
  x.as<float>()[2 * 50 + 49] = NAN;
  const Codes codes(4, 50);
  quantize_rows(cpu, x, codes);
  for (int m = 0; m < 4; ++m) {
    int largest = 0;
    for (int k = 0; k < 50; ++k) largest = std::max(largest, std::abs(int(codes.q.as<std::int8_t>()[m * 50 + k])));
    EXPECT_EQ(largest, m == 1 || m == 2 ? 0 : 127) << m;
  }
  EXPECT_EQ(codes.scale.as<float>()[1], 0.0f);
  EXPECT_TRUE(std::isnan(codes.scale.as<float>()[2]));
  EXPECT_GT(codes.scale.as<float>()[3], 0.0f);
}

TEST(QuantizeRows, error_is_at_most_half_a_step) {
  Cpu cpu;
  Random random(3);
  const std::int64_t columns = 777;
  const Tensor x = random.floats(DType::f32, {9, columns});
  const Codes codes(9, columns);
  quantize_rows(cpu, x, codes);
  for (std::int64_t m = 0; m < 9; ++m) {
    const float scale = codes.scale.as<float>()[m];
    for (std::int64_t k = 0; k < columns; ++k) {
      // Half a step, and x · (127 / a) with two roundings of a value up to 127.
      const float bound = scale * (0.5f + 127.0f * 3.0f * test::kEpsF32);
      EXPECT_LE(std::fabs(x.as<float>()[m * columns + k] - scale * float(codes.q.as<std::int8_t>()[m * columns + k])), bound);
    }
  }
}

TEST(QuantizeRows, scaling_by_a_power_of_two_changes_no_code) {
  Cpu cpu;
  Random random(4);
  const Tensor x = random.floats(DType::f32, {5, 100});
  Tensor doubled = copy_of(x);
  for (int i = 0; i < 500; ++i) doubled.as<float>()[i] *= 1024.0f;
  const Codes a(5, 100), b(5, 100);
  quantize_rows(cpu, x, a);
  quantize_rows(cpu, doubled, b);
  EXPECT_TRUE(same_bits(a.q, b.q));
}

TEST(QuantizeRows, strided_equals_dense_and_rows_are_independent) {
  Random random(5);
  Cpu cpu(3);
  const Tensor x = random.floats(DType::bf16, {31, 96});
  const Strided wide(x, 7, 2);
  const Codes dense(31, 96), strided(31, 96);
  quantize_rows(cpu, x, dense);
  quantize_rows(cpu, wide.view(), strided);
  EXPECT_TRUE(same_codes(dense, strided));
  const Codes one(1, 96);
  quantize_rows(cpu, x.view().row_range(17, 1), one);
  EXPECT_TRUE(same_bits(one.q, dense.q.view().row_range(17, 1)));
}

TEST(QuantizeRows, group_that_does_not_divide_the_row_is_refused) {
  Cpu cpu;
  const Tensor x = Tensor::zeros(DType::f32, {2, 96});
  for (const int group : {5, 64, 256}) EXPECT_THROW(quantize_rows(cpu, x, Codes(2, 96, group)), InvalidArgument) << group;
}

// ------------------------------------------------------------------------------------------------ norms

struct Norm {
  Tensor weight, mod_scale;
  NormArgs args{};
  Norm(Random& random, DType dtype, std::int64_t columns) : weight(random.floats(dtype, {columns})), mod_scale(random.floats(DType::f32, {columns})) {
    args = {.weight = weight, .eps = 1e-6f, .mod_scale = mod_scale};
  }
};

TEST(NormLaws, fast_equals_plain_bit_for_bit) {  // both keep the order of cpu/row_math.h
  Random random(6);
  for (const DType dtype : kFloats) {
    for (const std::int64_t columns : {1, 15, 64, 257}) {
      const Tensor x = random.floats(dtype, {13, columns});
      const Norm norm(random, DType::bf16, columns);
      Cpu reference(1, true), cpu(3);
      const Tensor a(dtype, {13, columns}), b(dtype, {13, columns});
      rms_norm(reference, x, norm.args, a.view());
      rms_norm(cpu, x, norm.args, b.view());
      EXPECT_TRUE(same_bits(b, a));
      layer_norm(reference, x, 1e-6f, norm.mod_scale, a.view());
      layer_norm(cpu, x, 1e-6f, norm.mod_scale, b.view());
      EXPECT_TRUE(same_bits(b, a));
      const Codes plain(13, columns), fast(13, columns);
      rms_norm(reference, x, norm.args, QuantizedView(plain));
      rms_norm(cpu, x, norm.args, QuantizedView(fast));
      EXPECT_TRUE(same_codes(fast, plain));
    }
  }
}

TEST(NormLaws, rms_norm_is_the_formula_in_float64) {
  Random random(7);
  Cpu cpu;
  const std::int64_t columns = 1000;
  const Tensor x = random.floats(DType::f32, {3, columns});
  const Norm norm(random, DType::f32, columns);
  const Tensor y(DType::f32, {3, columns});
  rms_norm(cpu, x, norm.args, y.view());
  for (std::int64_t m = 0; m < 3; ++m) {
    double squares = 0;
    for (std::int64_t k = 0; k < columns; ++k) squares += double(x.as<float>()[m * columns + k]) * double(x.as<float>()[m * columns + k]);
    const double inv_rms = 1.0 / std::sqrt(squares / double(columns) + 1e-6);
    for (std::int64_t k = 0; k < columns; ++k) {
      const double exact =
          double(x.as<float>()[m * columns + k]) * inv_rms * double(norm.weight.as<float>()[k]) * (1.0 + double(norm.mod_scale.as<float>()[k]));
      // The sum of squares errs by (min(K, 512)/16 + K/512 + 5) roundings, halved by the root; then root, quotient, 1 + mod_scale and three products.
      const double factor_error =
          std::fabs(double(x.as<float>()[m * columns + k]) * inv_rms * double(norm.weight.as<float>()[k])) * 0x1p-24;  // of 1 + mod_scale near 0
      EXPECT_NEAR(double(y.as<float>()[m * columns + k]), exact,
                  std::fabs(exact) * (double(std::min<std::int64_t>(columns, 512)) / 32.0 + double(columns) / 1024.0 + 10.0) * 0x1p-24 + factor_error);
    }
  }
}

TEST(NormLaws, layer_norm_has_mean_zero_and_variance_one) {
  Random random(8);
  Cpu cpu;
  const std::int64_t columns = 512;
  const Tensor x = random.floats(DType::f32, {4, columns}, 30.0f);
  const Tensor y(DType::f32, {4, columns});
  layer_norm(cpu, x, 1e-6f, std::nullopt, y.view());
  for (std::int64_t m = 0; m < 4; ++m) {
    double sum = 0, squares = 0;
    for (std::int64_t k = 0; k < columns; ++k) {
      const double value = double(y.as<float>()[m * columns + k]);
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(sum / double(columns), 0.0, (double(columns) / 16.0 + 8.0) * 0x1p-24);
    EXPECT_NEAR(squares / double(columns), 1.0, (double(columns) / 8.0 + 16.0) * 0x1p-24);
  }
}

TEST(NormLaws, output_may_be_the_input) {
  Random random(9);
  Cpu cpu;
  const Tensor x = random.floats(DType::bf16, {6, 80});
  const Norm norm(random, DType::f32, 80);
  const Tensor apart(DType::bf16, {6, 80});
  rms_norm(cpu, x, norm.args, apart.view());
  rms_norm(cpu, x, norm.args, x.view());
  EXPECT_TRUE(same_bits(x, apart));
}

TEST(NormLaws, quantised_output_is_the_float_output_quantised) {  // the row is float32 either way
  Random random(10);
  Cpu cpu;
  const Tensor x = random.floats(DType::bf16, {7, 256});
  const Norm norm(random, DType::f32, 256);
  for (const int group : {0, 64, 256}) {
    const Tensor y(DType::f32, {7, 256});
    const Codes fused(7, 256, group), composed(7, 256, group);
    rms_norm(cpu, x, norm.args, y.view());
    quantize_rows(cpu, y, composed);
    rms_norm(cpu, x, norm.args, QuantizedView(fused));
    EXPECT_TRUE(same_codes(fused, composed)) << group;
  }
}

TEST(NormLaws, gated_residual_is_its_parts) {
  Random random(11);
  const std::int64_t columns = 120;
  for (const DType dtype : kFloats) {
    for (const bool reference : {true, false}) {
      Cpu cpu(2, reference);
      const Tensor stream = random.floats(dtype, {9, columns});
      const Tensor y = random.floats(dtype, {9, columns});
      const Tensor gate = random.floats(DType::f32, {columns});
      Norm post(random, DType::f32, columns);
      post.args.mod_scale.reset();
      const Norm next(random, DType::f32, columns);

      const Tensor branch(DType::f32, {9, columns});
      rms_norm(cpu, y, post.args, branch.view());
      Tensor expected = copy_of(stream);
      for (std::int64_t i = 0; i < 9 * columns; ++i) {
        float before = 0;
        load_as_float(stream.as<std::byte>() + std::size_t(i) * bytes_of(dtype), dtype, 1, &before);
        const float after = before + std::tanh(gate.as<float>()[i % columns]) * branch.as<float>()[i];
        store_from_float(&after, 1, dtype, expected.as<std::byte>() + std::size_t(i) * bytes_of(dtype));
      }
      const Tensor normed(dtype, {9, columns}), out(dtype, {9, columns});
      rms_norm(cpu, expected, next.args, normed.view());

      const Tensor alone = copy_of(stream);
      gated_residual_norm(cpu, alone, y, gate, post.args, next.args, std::nullopt);
      EXPECT_TRUE(same_bits(alone, expected));
      gated_residual_norm(cpu, stream, y, gate, post.args, next.args, RowOutput(out.view()));
      EXPECT_TRUE(same_bits(stream, expected));
      EXPECT_TRUE(same_bits(out, normed));
    }
  }
}

TEST(NormLaws, add_rows_rounds_once) {
  Random random(12);
  for (const DType dtype : kFloats) {
    const Tensor x = random.floats(dtype, {5, 33}), y = random.floats(DType::f32, {5, 33});
    Tensor expected(dtype, {5, 33});
    const Tensor xs = to_float_tensor(x);
    for (int i = 0; i < 5 * 33; ++i) {
      const float sum = xs.as<float>()[i] + y.as<float>()[i];
      store_from_float(&sum, 1, dtype, expected.as<std::byte>() + std::size_t(i) * bytes_of(dtype));
    }
    const Tensor plain = copy_of(x);
    Cpu cpu(3), reference(1, true);
    add_rows(reference, plain, y);
    add_rows(cpu, x, y);
    EXPECT_TRUE(same_bits(x, expected));
    EXPECT_TRUE(same_bits(plain, expected));
  }
}

TEST(NormLaws, nan_row_stays_alone_and_threads_change_nothing) {
  Random random(13);
  Tensor x = random.floats(DType::f32, {50, 48});
  const Norm norm(random, DType::f32, 48);
  x.as<float>()[20 * 48 + 5] = NAN;
  Cpu one(1);
  const Codes expected(50, 48);
  rms_norm(one, x, norm.args, QuantizedView(expected));
  for (int m = 0; m < 50; ++m) EXPECT_EQ(std::isnan(expected.scale.as<float>()[m]), m == 20);
  for (const int threads : {2, 3, 5}) {
    Cpu many(threads);
    const Codes codes(50, 48);
    rms_norm(many, x, norm.args, QuantizedView(codes));
    EXPECT_TRUE(same_codes(codes, expected));
  }
}

TEST(NormLaws, no_rows_is_no_work) {
  Random random(14);
  Cpu cpu;
  const Norm norm(random, DType::f32, 16);
  const Tensor x(DType::f32, {0, 16}), y(DType::f32, {0, 16});
  EXPECT_NO_THROW(rms_norm(cpu, x, norm.args, y.view()));
  EXPECT_NO_THROW(quantize_rows(cpu, x, Codes(0, 16)));
}

TEST(NormLaws, wrong_sizes_are_named) {
  Random random(15);
  Cpu cpu;
  const Norm norm(random, DType::f32, 16);
  const Tensor x = random.floats(DType::f32, {2, 17}), y(DType::f32, {2, 17});
  try {
    rms_norm(cpu, x, norm.args, y.view());
    FAIL() << "a weight of 16 fits no row of 17";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("rms_norm: weight is f32 [16]"), std::string::npos) << error.what();
  }
}

// ------------------------------------------------------------------------------------------------ silu

TEST(SiluMul, fast_is_within_the_bound_of_plain) {  // gated_act_cpu_fast.cpp: 10 · 2^-24 relative, and the product's rounding, and the store's
  Random random(16);
  for (const DType dtype : kFloats) {
    const Tensor gate = random.floats(dtype, {8, 130}, 8.0f), up = random.floats(dtype, {8, 130});
    const Tensor a(dtype, {8, 130}), b(dtype, {8, 130});
    Cpu reference(1, true), cpu(3);
    silu_mul(reference, gate, up, a.view());
    silu_mul(cpu, gate, up, b.view());
    const Tensor magnitude = to_float_tensor(a);
    std::vector<float> bound;
    for (int i = 0; i < 8 * 130; ++i)
      bound.push_back(std::fabs(magnitude.as<float>()[i]) * (12 * test::kEpsF32 + (dtype == DType::f32 ? 0 : 2 * test::store_eps(dtype))) + 0x1p-126f);
    EXPECT_TRUE(within(b, a, bound)) << name_of(dtype);
  }
}

TEST(SiluMul, codes_are_the_codes_of_the_product) {
  Random random(17);
  for (const bool reference : {true, false}) {
    Cpu cpu(2, reference);
    const Tensor gate = random.floats(DType::bf16, {6, 64}), up = random.floats(DType::bf16, {6, 64});
    const Tensor product(DType::f32, {6, 64});
    silu_mul(cpu, gate, up, product.view());
    for (const int group : {0, 16, 64}) {
      const Codes fused(6, 64, group), composed(6, 64, group);
      quantize_rows(cpu, product, composed);
      silu_mul(cpu, gate, up, QuantizedView(fused));
      EXPECT_TRUE(same_codes(fused, composed)) << group;
    }
  }
}

TEST(SiluMul, halves_of_a_fused_buffer_in_place) {
  Random random(18);
  Cpu cpu;
  const Tensor both = random.floats(DType::f32, {5, 80});
  const TensorView gate = both.view().column_range(0, 40), up = both.view().column_range(40, 40);
  const Tensor expected(DType::f32, {5, 40});
  silu_mul(cpu, copy_of(gate), copy_of(up), expected.view());
  silu_mul(cpu, gate, up, gate);
  EXPECT_TRUE(same_bits(gate, expected));
}

TEST(Silu, extremes_are_finite_or_honest) {
  Cpu cpu;
  Tensor x(DType::f32, {1, 6});
  const float values[] = {-1000.0f, 1000.0f, 0.0f, -INFINITY, INFINITY, NAN};
  std::copy_n(values, 6, x.as<float>());
  silu(cpu, x);
  EXPECT_EQ(x.as<float>()[0], -0.0f);
  EXPECT_EQ(x.as<float>()[1], 1000.0f);
  EXPECT_EQ(x.as<float>()[2], 0.0f);
  EXPECT_TRUE(std::isnan(x.as<float>()[3]));  // -inf / inf, as in the definition
  EXPECT_EQ(x.as<float>()[4], INFINITY);
  EXPECT_TRUE(std::isnan(x.as<float>()[5]));
}

// ------------------------------------------------------------------------------------------------ rope

TEST(RopeTable, published_angles) {  // theta 5e6, head size 256; positions of text (small) and image (65,536 and up) tokens
  struct Row {
    float position;
    int k;
    float cos, sin;
  };
  const Row rows[] = {
      {1, 0, 0.540302f, 0.841471f},        {1, 1, 0.632151f, 0.774845f},       {1, 2, 0.706801f, 0.707412f},        {1, 31, 0.999715f, 0.023853f},
      {1, 59, 1.000000f, 0.000817f},       {1, 127, 1.000000f, 0.000000f},     {100, 0, 0.862319f, -0.506366f},     {100, 1, 0.776022f, 0.630706f},
      {100, 2, -0.999068f, -0.043170f},    {100, 31, -0.727574f, 0.686029f},   {100, 59, 0.996665f, 0.081604f},     {100, 127, 1.000000f, 0.000023f},
      {65536, 0, -0.721835f, 0.692065f},   {65536, 1, 0.166986f, 0.985959f},   {65536, 2, -0.999611f, -0.027876f},  {65536, 31, 0.451587f, -0.892227f},
      {65536, 59, -0.991259f, -0.131930f}, {65536, 127, 0.999891f, 0.014785f}, {65537, 0, -0.972362f, -0.233478f},  {65537, 1, -0.658593f, 0.752499f},
      {65537, 2, -0.687296f, -0.726377f},  {65537, 31, 0.472696f, -0.881226f}, {65537, 59, -0.991151f, -0.132739f}, {65537, 127, 0.999891f, 0.014786f},
      {65599, 0, -0.827476f, 0.561502f},   {65599, 1, 0.763544f, 0.645756f},   {65599, 2, -0.745314f, 0.666713f},   {65599, 31, 0.920797f, 0.390042f},
      {65599, 59, -0.983159f, -0.182751f}, {65599, 127, 0.999890f, 0.014800f}};
  const std::vector<int> axes(128, 0);
  for (const Row& row : rows) {
    Tensor position(DType::f32, {1, 1});
    position.as<float>()[0] = row.position;
    const Tensor cos(DType::f32, {1, 128}), sin(DType::f32, {1, 128});
    rope_table(position, axes, 5e6, 256, cos, sin);
    EXPECT_NEAR(cos.as<float>()[row.k], row.cos, 0.6e-6f) << row.position << " " << row.k;  // six decimals are given
    EXPECT_NEAR(sin.as<float>()[row.k], row.sin, 0.6e-6f) << row.position << " " << row.k;
  }
}

TEST(RopeTable, every_frequency_reads_its_axis) {
  Tensor positions(DType::f32, {1, 3});
  for (int axis = 0; axis < 3; ++axis) positions.as<float>()[axis] = float(10 * axis + 1);
  const std::vector<int> axis_of = {2, 0, 1, 2};
  const Tensor cos(DType::f32, {1, 4}), sin(DType::f32, {1, 4});
  rope_table(positions, axis_of, 100.0, 8, cos, sin);
  for (int k = 0; k < 4; ++k) {
    const float frequency = 1.0f / float(std::pow(100.0, double(float(2 * k) / 8.0f)));
    const float angle = positions.as<float>()[axis_of[std::size_t(k)]] * frequency;
    EXPECT_EQ(cos.as<float>()[k], float(std::cos(double(angle))));
    EXPECT_EQ(sin.as<float>()[k], float(std::sin(double(angle))));
  }
  EXPECT_THROW(rope_table(positions, std::vector<int>{0, 1, 3, 0}, 100.0, 8, cos, sin), InvalidArgument);
}

TEST(HeadNormRope, fast_equals_plain_in_a_slice_of_a_fused_buffer) {
  Random random(19);
  for (const DType dtype : kFloats) {
    const Tensor x = random.floats(dtype, {11, 3 * 32}), weight = random.floats(DType::bf16, {32});
    const Tensor cos = random.floats(DType::f32, {11, 16}), sin = random.floats(DType::f32, {11, 16});
    const Strided wide(x, 32, 64);
    Cpu reference(1, true), cpu(3);
    head_norm_rope(reference, x, 3, weight, 1e-6f, cos, sin);
    head_norm_rope(cpu, wide.view(), 3, weight, 1e-6f, cos, sin);
    EXPECT_TRUE(same_bits(wide.view(), x)) << name_of(dtype);
  }
}

TEST(HeadNormRope, rotation_keeps_the_length_of_every_pair) {
  Random random(20);
  Cpu cpu;
  const Tensor x = random.floats(DType::f32, {4, 64}), normed(DType::f32, {4, 64});
  Tensor weight(DType::f32, {64});
  std::fill_n(weight.as<float>(), 64, 1.0f);
  rms_norm(cpu, x, {.weight = weight, .eps = 1e-6f}, normed.view());
  Tensor positions(DType::f32, {4, 1});
  for (int m = 0; m < 4; ++m) positions.as<float>()[m] = float(7 * m);
  const Tensor cos(DType::f32, {4, 32}), sin(DType::f32, {4, 32});
  rope_table(positions, std::vector<int>(32, 0), 1e4, 64, cos, sin);
  head_norm_rope(cpu, x, 1, weight, 1e-6f, cos, sin);
  for (int m = 0; m < 4; ++m) {
    for (int i = 0; i < 32; ++i) {
      const double before = std::hypot(double(normed.as<float>()[m * 64 + i]), double(normed.as<float>()[m * 64 + i + 32]));
      const double after = std::hypot(double(x.as<float>()[m * 64 + i]), double(x.as<float>()[m * 64 + i + 32]));
      EXPECT_NEAR(after, before, before * 6 * 0x1p-24);  // cos and sin rounded, two products, one sum, on two components
    }
  }
  for (int i = 0; i < 64; ++i) EXPECT_EQ(x.as<float>()[i], normed.as<float>()[i]);  // position 0 turns nothing
}

// ------------------------------------------------------------------------------------------------ embedding

TEST(TimeSinusoid, published_values) {  // t rounded to bf16, 4,608 columns: sin, cos of argument k
  struct Row {
    float t;
    int k;
    double argument, sin, cos;
  };
  const Row rows[] = {{0.000123023987f, 0, 1.230240, 0.942569, 0.334012},
                      {0.000123023987f, 1, 1.225330, 0.940918, 0.338636},
                      {0.000123023987f, 250, 0.452661, 0.437361, 0.899286},
                      {0.000123023987f, 1000, 0.022549, 0.022547, 0.999746},
                      {0.000123023987f, 2303, 0.000123, 0.000123, 1.000000},
                      {0.333984375f, 0, 3339.843750, -0.324761, -0.945796},
                      {0.333984375f, 1, 3326.513455, 0.419745, -0.907642},
                      {0.333984375f, 250, 1228.881227, -0.495577, -0.868564},
                      {0.333984375f, 1000, 61.215470, -0.998961, -0.045571},
                      {0.333984375f, 2303, 0.333984, 0.327810, 0.944744},
                      {0.5f, 0, 5000.0, -0.987966, 0.154668},
                      {0.5f, 1, 4980.043536, -0.580367, -0.814355},
                      {0.5f, 250, 1839.728620, -0.947292, 0.320372},
                      {0.5f, 1000, 91.644213, -0.512442, -0.858722},
                      {0.5f, 2303, 0.5, 0.479426, 0.877583},
                      {0.8984375f, 0, 8984.375, -0.548015, 0.836469},
                      {0.8984375f, 1, 8948.515728, 0.952045, 0.305959},
                      {0.8984375f, 250, 3305.762365, 0.722141, 0.691745},
                      {0.8984375f, 1000, 164.673195, 0.966282, 0.257486},
                      {0.8984375f, 2303, 0.898437, 0.782355, 0.622833}};
  const Tensor y(DType::f32, {4608});
  for (const Row& row : rows) {
    time_sinusoid(row.t, y);
    // The argument is float32: the exponent k ln(10000) / 2303 <= 9.2 errs by two roundings, exp by one ulp, two products round.
    const double exponent = double(row.k) * std::log(10000.0) / 2303.0;
    const double bound = row.argument * (2.0 * exponent + 4.0) * 0x1p-24 + 0.6e-6;
    EXPECT_NEAR(double(y.as<float>()[row.k]), row.sin, bound) << row.t << " " << row.k;
    EXPECT_NEAR(double(y.as<float>()[2304 + row.k]), row.cos, bound) << row.t << " " << row.k;
  }
}

TEST(EmbedRows, rows_of_the_table_and_a_bad_id) {
  Random random(21);
  Cpu cpu;
  const Tensor table = random.floats(DType::bf16, {10, 12});
  const std::vector<std::int32_t> ids = {9, 0, 9, 3};
  const Tensor y(DType::f32, {4, 12});
  embed_rows(cpu, table, ids, y);
  const Tensor floats = to_float_tensor(table);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_TRUE(same_bits(y.view().row_range(std::int64_t(i), 1), floats.view().row_range(ids[i], 1)));
  }
  for (const std::int32_t bad : {-1, 10}) {
    EXPECT_THROW(embed_rows(cpu, table, std::vector<std::int32_t>{bad}, Tensor(DType::f32, {1, 12}).view()), InvalidArgument);
  }
}

}  // namespace
}  // namespace octavo
