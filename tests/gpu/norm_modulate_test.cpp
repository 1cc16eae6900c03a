// Norms and the gated residual on the GPU against their plain CPU bodies, by the rule of numerics.md section 3.
#include <fmt/format.h>

#include "gpu/row_ops_test.h"
#include "ops/norm_modulate/norm_modulate_backend.h"

namespace octavo {
namespace {

using namespace octavo::testing;  // NOLINT

// A norm in float32, then one rounding. r = 1/sqrt(mean) differs between devices by the order of one sum of K squares: about
// 2 ulp; two or three roundings follow on both sides. float32 outputs: 6 ulp. bf16 outputs: a step of bf16 is 2^16 float32 ulps, so
// about 6 / 2^16 of them round the other way: 1e-4, ten times that is allowed.
constexpr int kNormUlps = 6;
constexpr double kNormFlips = 1e-3;

class NormCuda : public GpuTest {
 protected:
  Tensor vector(DType dtype, std::int64_t columns, float mean, float deviation) {
    std::normal_distribution<float> gauss(mean, deviation);
    std::vector<float> values(static_cast<std::size_t>(columns));
    for (float& value : values) value = gauss(random());
    Tensor tensor(dtype, {columns});
    store_from_float(values.data(), columns, dtype, tensor.view().data);
    return tensor;
  }

  struct Case {
    DType x = DType::bf16;
    DType weight = DType::bf16;
    std::int64_t rows = 9;
    std::int64_t columns = 4608;
    bool modulated = true;
    bool center = false;  // layer_norm
    int group = -1;       // -1: float output of x's type
  };

  void expect_norm(const Case& test) {
    const std::string what = fmt::format("{} [{}, {}], weight {}, mod {}, center {}, group {}", name_of(test.x), test.rows, test.columns, name_of(test.weight),
                                         test.modulated, test.center, test.group);
    const Tensor x = random_rows(random(), test.x, test.rows, test.columns, test.group >= 0);
    const Tensor weight = vector(test.weight, test.columns, 1.0f, 0.3f);
    const Tensor mod = vector(DType::f32, test.columns, 0.0f, 0.5f);
    const Tensor gpu_x = to_gpu(x);
    const Tensor gpu_weight = to_gpu(weight);
    const Tensor gpu_mod = to_gpu(mod);
    const auto mod_of = [&](const Tensor& tensor) { return test.modulated ? std::optional<TensorView>(tensor.view()) : std::nullopt; };
    constexpr float kEps = 1e-6f;
    ExecContext ctx = gpu_context();
    const auto on_cpu = [&](const RowOutput& out) {
      test.center ? layer_norm_cpu(x, kEps, mod_of(mod), out) : rms_norm_cpu(x, {weight, kEps, mod_of(mod)}, out);
    };
    const auto on_gpu = [&](const RowOutput& out) {
      test.center ? layer_norm(ctx, gpu_x, kEps, mod_of(gpu_mod), out) : rms_norm(ctx, gpu_x, {gpu_weight, kEps, mod_of(gpu_mod)}, out);
    };
    if (test.group < 0) {
      const Tensor expected(test.x, {test.rows, test.columns});
      const Tensor y = to_gpu(poisoned(test.x, {test.rows, test.columns}));
      on_cpu(expected.view());
      on_gpu(y.view());
      // (x - mean) cancels: what is left of x carries x's rounding of the mean, so float32 is judged more loosely there.
      expect_close_floats(to_cpu(y), expected, kNormFlips, test.center ? 4096 : kNormUlps, what);
      return;
    }
    const Codes expected(test.rows, test.columns, test.group, Device{});
    const Codes codes(test.rows, test.columns, test.group, gpu().device);
    on_cpu(expected.view());
    on_gpu(codes.view());
    expect_close_codes(to_cpu(codes.q), to_cpu(codes.scale), expected, what, norm_slack(x));
  }

  void expect_gated(DType dtype, DType y_dtype, std::int64_t rows, std::int64_t columns, int group, bool has_out) {
    const std::string what = fmt::format("{} += {} [{}, {}], group {}, out {}", name_of(dtype), name_of(y_dtype), rows, columns, group, has_out);
    const Tensor stream = random_rows(random(), dtype, rows, columns, false);
    const Tensor y = random_rows(random(), y_dtype, rows, columns, false);
    const Tensor gate = vector(DType::f32, columns, 0.0f, 1.0f);
    const Tensor post = vector(dtype, columns, 1.0f, 0.3f);
    const Tensor next = vector(dtype, columns, 1.0f, 0.3f);
    const Tensor mod = vector(DType::f32, columns, 0.0f, 0.5f);
    const Tensor gpu_stream = to_gpu(stream);
    const Tensor gpu_y = to_gpu(y);
    const Tensor gpu_gate = to_gpu(gate);
    const Tensor gpu_post = to_gpu(post);
    const Tensor gpu_next = to_gpu(next);
    const Tensor gpu_mod = to_gpu(mod);
    constexpr float kEps = 1e-5f;
    ExecContext ctx = gpu_context();

    const bool floats = group < 0;
    const Codes codes(rows, columns, std::max(group, 0), gpu().device);
    const Tensor out = to_gpu(poisoned(dtype, {rows, columns}));
    const RowOutput gpu_out = floats ? RowOutput(out.view()) : RowOutput(codes.view());
    gated_residual_norm(ctx, gpu_stream, gpu_y, gpu_gate, {gpu_post, kEps, std::nullopt}, {gpu_next, kEps, gpu_mod.view()},
                        has_out ? std::optional(gpu_out) : std::nullopt);

    gated_residual_norm_cpu(stream, y, gate, {post, kEps, std::nullopt}, {next, kEps, mod.view()}, std::nullopt);  // stream: now the CPU's new residual
    const Tensor got_stream = to_cpu(gpu_stream);
    // The branch differs by a few float32 ulps of itself, and the sum can cancel against the residual: float32 rows are judged in absolute terms.
    if (dtype == DType::f32) {
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        ASSERT_NEAR(got_stream.as<float>()[i], stream.as<float>()[i], 8 * 0x1p-23f * (std::fabs(stream.as<float>()[i]) + 8.0f))
            << what << ", element " << i;  // |gate · norm| < 8
      }
    } else {
      std::int64_t different = 0;
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        float a = 0;
        float b = 0;
        load_as_float(static_cast<const std::byte*>(got_stream.view().data) + 2 * i, dtype, 1, &a);
        load_as_float(static_cast<const std::byte*>(stream.view().data) + 2 * i, dtype, 1, &b);
        if (a != b) ++different;
        // One step of the stored type at the size of the terms (a cancelled sum is smaller than they are).
        ASSERT_NEAR(a, b, (dtype == DType::bf16 ? 0x1p-7f : 0x1p-10f) * std::max(std::fabs(b), 1e-3f)) << what << ", element " << i;
      }
      EXPECT_LE(double(different), 2e-3 * double(rows * columns) + 2) << what;
    }
    if (!has_out) return;
    // The second norm is judged on the residual that this device stored: a flipped bf16 there is no fault of it.
    if (floats) {
      const Tensor expected(dtype, {rows, columns});
      rms_norm_cpu(got_stream, {next, kEps, mod.view()}, expected.view());
      expect_close_floats(to_cpu(out), expected, kNormFlips, kNormUlps, what);
    } else {
      const Codes expected(rows, columns, group, Device{});
      rms_norm_cpu(got_stream, {next, kEps, mod.view()}, expected.view());
      expect_close_codes(to_cpu(codes.q), to_cpu(codes.scale), expected, what, norm_slack(got_stream));
    }
  }
};

TEST_F(NormCuda, rms_norm_of_every_row_length) {
  for (const std::int64_t columns : {8, 17, 64, 256, 500, 512, 2560, 4608, 6144, 6400, 12288, 53248}) {
    for (const int group : {-1, 0}) expect_norm({.columns = columns, .group = group});
    expect_norm({.x = DType::f32, .weight = DType::f32, .columns = columns, .modulated = false, .group = -1});
  }
}

TEST_F(NormCuda, rotated_codes) {
  for (const int group : {4, 16, 64, 256}) {
    for (const std::int64_t columns : {256, 4608, 6400, 12288}) expect_norm({.columns = columns, .group = group});
  }
  expect_norm({.columns = 4096, .group = 1024});
  expect_norm({.x = DType::f16, .weight = DType::f16, .columns = 4608, .group = 256});
  expect_norm({.x = DType::f32, .weight = DType::f32, .columns = 4608, .group = 256});
}

TEST_F(NormCuda, layer_norm_with_and_without_modulation) {
  for (const std::int64_t columns : {48, 512, 500, 4608, 12288}) {
    for (const bool modulated : {false, true}) {
      expect_norm({.columns = columns, .modulated = modulated, .center = true, .group = -1});
      expect_norm({.columns = columns, .modulated = modulated, .center = true, .group = 0});
    }
  }
}

TEST_F(NormCuda, more_rows_than_the_gpu_holds_at_once) {
  expect_norm({.rows = 3001, .columns = 512, .group = 0});
  expect_norm({.rows = 3001, .columns = 512, .group = -1});
  expect_norm({.rows = 1, .columns = 4608, .group = 256});
}

TEST_F(NormCuda, gated_residual_of_every_output) {
  for (const std::int64_t columns : {256, 500, 512, 4608, 6144, 6400, 12288}) {
    for (const int group : {-1, 0}) expect_gated(DType::bf16, DType::bf16, 9, columns, group, true);
    expect_gated(DType::bf16, DType::bf16, 9, columns, 0, false);
    expect_gated(DType::f32, DType::f32, 9, columns, -1, true);
  }
  for (const int group : {16, 256}) expect_gated(DType::bf16, DType::bf16, 9, 4608, group, true);
  expect_gated(DType::f16, DType::f16, 9, 4608, 256, true);
  expect_gated(DType::bf16, DType::f32, 9, 4608, 0, true);
  expect_gated(DType::bf16, DType::bf16, 2003, 512, 256, true);
}

// Teams that run out of rows before others, rings longer than what is left, more rows than teams: every count up to a few, and around what the GPU holds.
TEST_F(NormCuda, every_small_number_of_rows) {
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 17, 131, 133, 265, 529, 1057}) {
    for (const int group : {-1, 0, 256}) {
      expect_norm({.rows = rows, .columns = 4608, .group = group});
      expect_gated(DType::bf16, DType::bf16, rows, 4608, group, true);
    }
    expect_norm({.rows = rows, .columns = 256, .group = 0});
    expect_norm({.rows = rows, .columns = 1040, .group = 16});
    expect_gated(DType::bf16, DType::bf16, rows, 1040, 4, true);
  }
  for (const std::int64_t rows : {1, 3, 265, 529}) {
    for (const int group : {0, 256}) {
      expect_norm({.rows = rows, .columns = 12288, .group = group});
      expect_gated(DType::bf16, DType::bf16, rows, 12288, group, true);
      expect_norm({.rows = rows, .columns = 12288, .center = true, .group = group});
    }
  }
}

TEST_F(NormCuda, last_segments_of_every_length) {
  for (std::int64_t columns = 16; columns <= 1040; columns += 16) {
    expect_norm({.rows = 7, .columns = columns, .group = 0});
    expect_norm({.rows = 7, .columns = columns, .center = true, .group = -1});
    if (columns % 64 == 0) expect_norm({.rows = 7, .columns = columns, .center = true, .group = 64});
  }
  for (const std::int64_t columns : {2048, 2064, 2576, 3088, 6160, 12272, 18432}) {  // three segments a warp, the last ones short or missing
    expect_norm({.rows = 7, .columns = columns, .group = 16});
    expect_gated(DType::bf16, DType::bf16, 7, columns, 16, true);
  }
}

// Rows whose squares vanish or overflow in float32, and whose normalised values do not: the scale must not take the wrong way round.
TEST_F(NormCuda, magnitudes_at_both_ends) {
  constexpr std::int64_t kColumns = 512;
  const Tensor weight = vector(DType::f32, kColumns, 1.0f, 0.3f);
  const Tensor gpu_weight = to_gpu(weight);
  const std::vector<float> magnitudes{1e-36f, 1e-34f, 1e-30f, 1e-20f, 1e-3f, 1e10f, 1e17f, 1e30f};
  const auto rows = std::int64_t(magnitudes.size());
  std::normal_distribution<float> gauss;
  std::vector<float> values(std::size_t(rows * kColumns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = magnitudes[i / kColumns] * gauss(random());
  Tensor x(DType::f32, {rows, kColumns});
  store_from_float(values.data(), rows * kColumns, DType::f32, x.view().data);
  const Tensor gpu_x = to_gpu(x);
  ExecContext ctx = gpu_context();
  for (const int group : {0, 16}) {
    const Codes expected(rows, kColumns, group, Device{});
    const Codes codes(rows, kColumns, group, gpu().device);
    rms_norm_cpu(x, {weight, 1e-6f, std::nullopt}, expected.view());
    rms_norm(ctx, gpu_x, {gpu_weight, 1e-6f, std::nullopt}, codes.view());
    // Below 2^-126 the CPU's values are rounded to fewer bits, in units of 2^-149: none of these rows goes there after its factor of 1000.
    expect_close_codes(to_cpu(codes.q), to_cpu(codes.scale), expected, fmt::format("group {}", group), norm_slack(x));
  }
}

TEST_F(NormCuda, strided_rows_and_odd_views) {
  constexpr std::int64_t kColumns = 528;
  const Tensor weight = vector(DType::bf16, kColumns + 1, 1.0f, 0.3f);
  const Tensor gpu_weight = to_gpu(weight);
  ExecContext ctx = gpu_context();
  for (const std::int64_t offset : {0, 1, 8, 16}) {  // 16-byte rows, odd ones, and a parameter vector off its 8 bytes
    for (const std::int64_t shift : {0, 1}) {
      const Tensor wide = random_rows(random(), DType::bf16, 9, kColumns + offset, true);
      const Tensor gpu_wide = to_gpu(wide);
      const auto cut = [&](const Tensor& tensor) {
        const TensorView view = tensor;
        return TensorView(static_cast<std::byte*>(view.data) + 2 * shift, DType::bf16, {kColumns}, view.device);
      };
      const Codes expected(9, kColumns, 16, Device{});
      const Codes codes(9, kColumns, 16, gpu().device);
      const TensorView x = wide.view().column_range(offset, kColumns);
      rms_norm_cpu(x, {cut(weight), 1e-6f, std::nullopt}, expected.view());
      rms_norm(ctx, gpu_wide.view().column_range(offset, kColumns), {cut(gpu_weight), 1e-6f, std::nullopt}, codes.view());
      expect_close_codes(to_cpu(codes.q), to_cpu(codes.scale), expected, fmt::format("offset {}, shift {}", offset, shift), norm_slack(x));
    }
  }
}

TEST_F(NormCuda, a_row_does_not_depend_on_its_neighbours) {
  constexpr std::int64_t kRows = 1500;
  constexpr std::int64_t kColumns = 4608;
  const Tensor x = to_gpu(random_rows(random(), DType::bf16, kRows, kColumns, false));
  const Tensor weight = to_gpu(vector(DType::bf16, kColumns, 1.0f, 0.3f));
  const Codes all(kRows, kColumns, 256, gpu().device);
  ExecContext ctx = gpu_context();
  rms_norm(ctx, x, {weight, 1e-6f, std::nullopt}, all.view());
  const Tensor all_q = to_cpu(all.q);
  for (const std::int64_t m : {std::int64_t(0), std::int64_t(777), kRows - 1}) {
    const Codes one(1, kColumns, 256, gpu().device);
    rms_norm(ctx, x.view().row_range(m, 1), {weight, 1e-6f, std::nullopt}, one.view());
    EXPECT_EQ(std::memcmp(to_cpu(one.q).as<std::int8_t>(), all_q.as<std::int8_t>() + m * kColumns, kColumns), 0) << "row " << m;
  }
}

TEST_F(NormCuda, in_place) {
  const Tensor x = random_rows(random(), DType::bf16, 33, 4608, false);
  const Tensor weight = vector(DType::bf16, 4608, 1.0f, 0.3f);
  const Tensor gpu_x = to_gpu(x);
  const Tensor gpu_weight = to_gpu(weight);
  const Tensor expected(DType::bf16, {33, 4608});
  ExecContext ctx = gpu_context();
  rms_norm(ctx, gpu_x, {gpu_weight, 1e-6f, std::nullopt}, gpu_x.view());
  rms_norm_cpu(x, {weight, 1e-6f, std::nullopt}, expected.view());
  expect_close_floats(to_cpu(gpu_x), expected, kNormFlips, kNormUlps, "in place");
}

TEST_F(NormCuda, add_rows_gives_the_bits_of_the_definition) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const std::int64_t columns : {7, 64, 4608}) {
      const Tensor x = random_rows(random(), dtype, 37, columns, false);
      const Tensor y = random_rows(random(), dtype, 37, columns, false);
      const Tensor gpu_x = to_gpu(x);
      const Tensor gpu_y = to_gpu(y);
      ExecContext ctx = gpu_context();
      add_rows(ctx, gpu_x, gpu_y);
      add_rows_cpu(x, y);
      EXPECT_EQ(std::memcmp(to_cpu(gpu_x).view().data, x.view().data, x.bytes()), 0) << name_of(dtype) << " " << columns;
    }
  }
}

TEST_F(NormCuda, sanitize_every_kernel) {
  for (const int group : {-1, 0, 256}) {
    for (const std::int64_t columns : {768, 6400}) {
      expect_norm({.rows = 5, .columns = columns, .group = group});
      expect_gated(DType::bf16, DType::bf16, 5, columns, group, true);
    }
  }
  expect_norm({.rows = 5, .columns = 20, .group = 4});
  expect_gated(DType::bf16, DType::bf16, 5, 20, 4, true);
  expect_norm({.rows = 5, .columns = 768, .center = true, .group = 256});
}

}  // namespace
}  // namespace octavo
