// The ops around the projections on the GPU, each against its plain CPU body: rope, float projections, convolution, group norm, embedding.
#include <fmt/format.h>

#include <array>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "gpu/bounds_test.h"
#include "ops/conv2d/conv2d_backend.h"
#include "ops/embed/embed_backend.h"
#include "ops/group_norm/group_norm_backend.h"
#include "ops/linear/float_launch.h"
#include "ops/linear/linear_backend.h"
#include "ops/rope/rope_backend.h"
#include "ops/row_launch.h"

namespace octavo {
namespace {

using namespace octavo::testing;  // NOLINT

constexpr std::array kFloats{DType::bf16, DType::f16, DType::f32};

class ModelOpsCuda : public GpuTest {
 protected:
  // Our own kernels are judged here; gpu_cublaslt judges the library.
  static void SetUpTestSuite() { ::setenv("OCTAVO_CUBLASLT", "off", 1); }

  void expect_rope(DType dtype, std::int64_t rows, int heads, std::int64_t head_dim) {
    const std::string what = fmt::format("{} [{}, {} x {}]", name_of(dtype), rows, heads, head_dim);
    const std::int64_t columns = heads * head_dim;
    const Tensor fused = gaussian(random(), dtype, {rows, 3 * columns});
    const Tensor weight = gaussian(random(), dtype, {head_dim});
    const Tensor cos = gaussian(random(), DType::f32, {rows, head_dim / 2}), sin = gaussian(random(), DType::f32, {rows, head_dim / 2});
    const Tensor gpu_fused = to_gpu(fused), gpu_weight = to_gpu(weight), gpu_cos = to_gpu(cos), gpu_sin = to_gpu(sin);
    ExecContext ctx = gpu_context();
    head_norm_rope(ctx, gpu_fused.view().column_range(columns, columns), heads, gpu_weight, 1e-5f, gpu_cos, gpu_sin);

    Tensor want = to_float_tensor(fused);
    head_norm_rope_cpu(want.view().column_range(columns, columns), heads, weight, 1e-5f, cos, sin);
    // The norm's factor is good to a few float32 steps and some for the order of its sum; each result is two products and a sum of values below 8 · 8 · 8.
    const double bound = 0x1p-24 * (double(head_dim) / 8 + 16) * 256;
    const Tensor got = to_cpu(gpu_fused);
    expect_within(got, want, [&](std::int64_t i) { return i / columns % 3 == 1 ? bound : 0.0; }, what);  // the neighbours are untouched
  }

  void expect_linear(DType x_type, DType w_type, DType y_type, std::int64_t m, std::int64_t n, std::int64_t k, bool has_tail, bool turing = false) {
    const std::string what =
        fmt::format("{} x {} to {}, M {}, N {}, K {}{}", name_of(x_type), name_of(w_type), name_of(y_type), m, n, k, has_tail ? ", bias, gate, residual" : "");
    const Tensor x = gaussian(random(), x_type, {m, k}), w = gaussian(random(), w_type, {n, k}, 0.5f);
    const Tensor bias = gaussian(random(), w_type, {n}), gate = gaussian(random(), DType::f32, {n}), residual = gaussian(random(), y_type, {m, n});
    LinearWeights weights{.name = "test", .weight = w, .rounds_x = rounds_x_};
    Epilogue epilogue;
    const Tensor gpu_x = to_gpu(x), gpu_w = to_gpu(w), gpu_bias = to_gpu(bias), gpu_gate = to_gpu(gate), gpu_residual = to_gpu(residual);
    LinearWeights gpu_weights{.name = "test", .weight = gpu_w, .rounds_x = rounds_x_};
    Epilogue gpu_epilogue;
    if (has_tail) {
      weights.bias = bias;
      gpu_weights.bias = gpu_bias;
      epilogue.mod_gate = gate;
      gpu_epilogue.mod_gate = gpu_gate;
      epilogue.residual = residual;
      gpu_epilogue.residual = gpu_residual;
    }
    const Tensor y(y_type, {m, n}, gpu().device);
    ExecContext ctx = gpu_context();
    if (turing) {
      FloatLinearLaunch launch{.x = rows_in(gpu_x), .w = rows_in(gpu_w), .y = rows_in(y), .m = m, .n = n, .k = k};
      if (has_tail) {
        launch.bias = gpu_bias.as<void>();
        launch.bias_type = row_type(w_type);
        launch.mod_gate = gpu_gate.as<float>();
        launch.residual = rows_in(gpu_residual);
      }
      ASSERT_TRUE(fits_float_mma(launch, 75)) << what;
      launch_float_mma(launch, 75, stream_of(ctx));
    } else {
      linear(ctx, gpu_x, gpu_weights, gpu_epilogue, y.view());
    }

    const Tensor want(DType::f32, {m, n}), size(DType::f32, {m, n});
    linear_cpu(x, weights, epilogue, want.view());
    const Tensor abs_x = magnitudes(x), abs_w = magnitudes(w);
    LinearWeights plain{.name = "size", .weight = abs_w};
    linear_cpu(abs_x, plain, {}, size.view());                            // Σ |x| |w|
    const bool in_parts = x_type == DType::f32 && w_type == DType::bf16;  // three sums of K products, of which the CPU has one
    const bool is_narrowed = rounds_x_ && x_type == DType::f32 && w_type == DType::f16;
    const double steps = 0x1p-24 * ((in_parts ? 4.0 : 2.0) * double(k) + 8) + (is_narrowed ? half_step(DType::f16) : 0);
    expect_within(
        to_cpu(y), want,
        [&](std::int64_t i) {
          const double g = has_tail ? std::fabs(double(gate.as<float>()[i % n])) : 1;
          return steps * (double(size.as<float>()[i]) + 8) * (g + 1) + 0x1p-22 * std::fabs(double(want.as<float>()[i]));
        },
        what);
  }

  bool rounds_x_ = false;  // LinearWeights::rounds_x of expect_linear

  void expect_conv(DType x_type, DType w_type, DType y_type, Shape x_shape, std::int64_t out, int kernel, const ConvArgs& args, bool has_residual) {
    const std::int64_t enlarge = args.upsample_nearest_2x ? 2 : 1;
    const Shape y_shape{(x_shape[0] * enlarge + args.pad_top + args.pad_bottom - kernel) / args.stride + 1,
                        (x_shape[1] * enlarge + args.pad_left + args.pad_right - kernel) / args.stride + 1, out};
    const std::string what = fmt::format("{} {} x {} to {} {}", name_of(x_type), x_shape.text(), name_of(w_type), name_of(y_type), y_shape.text());
    const Tensor x = gaussian(random(), x_type, x_shape), w = gaussian(random(), w_type, {out, kernel, kernel, x_shape[2]}, 0.3f);
    const Tensor bias = gaussian(random(), w_type, {out}), residual = gaussian(random(), y_type, y_shape);
    const Tensor gpu_x = to_gpu(x), gpu_w = to_gpu(w), gpu_bias = to_gpu(bias), gpu_residual = to_gpu(residual);
    const auto maybe = [&](const Tensor& map) { return has_residual ? std::optional<TensorView>(map) : std::nullopt; };
    const Tensor y(y_type, y_shape, gpu().device);
    ExecContext ctx = gpu_context();
    conv2d(ctx, gpu_x, {.name = "test", .weight = gpu_w, .bias = gpu_bias}, args, maybe(gpu_residual), y.view());

    const Tensor want(DType::f32, y_shape), size(DType::f32, y_shape);
    conv2d_cpu(x, {.name = "test", .weight = w, .bias = bias}, args, maybe(residual), want.view());
    const Tensor abs_x = magnitudes(x), abs_w = magnitudes(w);
    conv2d_cpu(abs_x, {.name = "size", .weight = abs_w, .bias = std::nullopt}, args, std::nullopt, size.view());
    const double narrowed = x_type == DType::f32 && w_type == DType::f16 ? half_step(DType::f16) : 0;  // x becomes float16
    const double steps = 0x1p-24 * (2.0 * double(kernel * kernel * x_shape[2]) + 8) + narrowed;
    expect_within(to_cpu(y), want, [&](std::int64_t i) { return steps * (double(size.as<float>()[i]) + 8); }, what);
  }

  void expect_group_norm(DType dtype, Shape shape, int groups, bool silu, float offset, std::optional<DType> y_type = std::nullopt) {
    const std::string what =
        fmt::format("{} to {} {}, {} groups{}", name_of(dtype), name_of(y_type.value_or(dtype)), shape.text(), groups, silu ? ", silu" : "");
    Tensor x = gaussian(random(), DType::f32, shape);
    for (std::int64_t i = 0; i < shape.elements(); ++i) x.as<float>()[i] += offset;
    Tensor stored(dtype, shape);
    store_from_float(x.as<float>(), shape.elements(), dtype, stored.view().data);
    const Tensor weight = gaussian(random(), dtype, {shape[2]}), bias = gaussian(random(), dtype, {shape[2]});
    const Tensor gpu_x = to_gpu(stored), gpu_weight = to_gpu(weight), gpu_bias = to_gpu(bias);
    const auto args = [&](const TensorView& w, const TensorView& b) {
      return GroupNormArgs{.weight = w, .bias = b, .groups = groups, .eps = 1e-6f, .silu = silu};
    };
    const Tensor y(y_type.value_or(dtype), shape, gpu().device);
    ExecContext ctx = gpu_context();
    group_norm(ctx, gpu_x, args(gpu_weight, gpu_bias), y.view());
    group_norm(ctx, gpu_x, args(gpu_weight, gpu_bias), gpu_x.view());  // in place
    const Tensor want(DType::f32, shape);
    const Tensor statistics(DType::f32, {groups, 2});
    group_norm_statistics_cpu(stored, args(weight, bias), statistics);
    group_norm_apply_cpu(stored, args(weight, bias), statistics, want.view());
    // Statistics agree to float32 but for one rounding each; values are below 8 deviations, weights below 8; x - mean cancels `offset`.
    const double bound = 0x1p-24 * 64 * (8 + std::fabs(double(offset)));
    const auto within = [&](std::int64_t) { return bound; };
    expect_within(to_cpu(y), want, within, what);
    expect_within(to_cpu(gpu_x), want, within, what + ", in place");
  }
};

TEST_F(ModelOpsCuda, head_norm_rope_of_every_head_size) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t head_dim : {2, 32, 64, 96, 128, 256, 320}) {
      for (const std::int64_t rows : {1, 37}) {
        for (const int heads : {3, 8, 18}) expect_rope(dtype, rows, heads, head_dim);
      }
    }
  }
}

TEST_F(ModelOpsCuda, float_projections_of_every_type_and_tail) {
  for (const DType x : kFloats) {
    for (const DType w : kFloats) {
      for (const DType y : kFloats) expect_linear(x, w, y, 70, 136, 96, true);
    }
  }
  for (const std::int64_t m : {1, 127, 128, 129}) {
    for (const std::int64_t n : {1, 7, 128, 130}) {
      for (const std::int64_t k : {1, 8, 24, 32, 40, 256}) expect_linear(DType::bf16, DType::bf16, DType::bf16, m, n, k, false);
    }
  }
  expect_linear(DType::bf16, DType::bf16, DType::f32, 300, 520, 4608, true);
  expect_linear(DType::f32, DType::bf16, DType::f32, 48, 512, 2048, true);
  expect_linear(DType::bf16, DType::bf16, DType::bf16, 190, 264, 128, true);
}

// Float32 rows on bf16 weights: tiles cut in every direction, K that ends within a stage, a warp's share or before the ring of stages is full.
TEST_F(ModelOpsCuda, float32_rows_in_three_parts) {
  for (const std::int64_t m : {1, 31, 33, 129}) {
    for (const std::int64_t n : {1, 6, 128, 131}) {
      for (const std::int64_t k : {8, 24, 64, 72, 128, 264}) expect_linear(DType::f32, DType::bf16, DType::f32, m, n, k, n % 2 == 0);
    }
  }
  for (const DType y : kFloats) expect_linear(DType::f32, DType::bf16, y, 70, 260, 4608, true);
  expect_linear(DType::f32, DType::bf16, DType::f32, 300, 128, 4608, false);
  expect_linear(DType::f32, DType::bf16, DType::bf16, 300, 520, 128, true);
}

// Whole numbers whose sums float32 holds come out exact: all 24 bits of x take part, and every product is summed once.
TEST_F(ModelOpsCuda, float32_rows_keep_all_their_bits) {
  constexpr std::int64_t kM = 65, kN = 136, kK = 200;
  const Tensor x(DType::f32, {kM, kK}), w(DType::bf16, {kN, kK}), want(DType::f32, {kM, kN});
  std::vector<float> row(kK);
  for (std::int64_t m = 0; m < kM; ++m) {
    for (std::int64_t k = 0; k < kK; ++k) x.view().row<float>(m)[k] = float(k % kM == m ? 16777213 - 2 * k : 0);  // at most four are not 0 ...
  }
  for (std::int64_t n = 0; n < kN; ++n) {
    for (std::int64_t k = 0; k < kK; ++k) row[std::size_t(k)] = k / kM == n % 4 ? float(1 - 2 * (n % 2)) : 0.0f;  // ... of which w takes one
    store_from_float(row.data(), kK, DType::bf16, w.view().row_bytes(n));
  }
  linear_cpu(x, {.name = "test", .weight = w}, {}, want.view());
  const Tensor gpu_x = to_gpu(x), gpu_w = to_gpu(w), y(DType::f32, {kM, kN}, gpu().device);
  ExecContext ctx = gpu_context();
  linear(ctx, gpu_x, {.name = "test", .weight = gpu_w}, {}, y.view());
  expect_within(to_cpu(y), want, [](std::int64_t) { return 0.0; }, "whole numbers");
}

// An infinity or a NaN shows in its row and in no other, also a NaN whose upper half looks like an infinity.
TEST_F(ModelOpsCuda, float32_rows_that_are_not_finite) {
  const Tensor x = gaussian(random(), DType::f32, {40, 96}), w = gaussian(random(), DType::bf16, {24, 96});
  x.view().row<float>(3)[17] = std::numeric_limits<float>::infinity();
  x.view().row<float>(20)[95] = std::bit_cast<float>(0x7f800001u);
  const Tensor gpu_x = to_gpu(x), gpu_w = to_gpu(w), y(DType::f32, {40, 24}, gpu().device);
  ExecContext ctx = gpu_context();
  linear(ctx, gpu_x, {.name = "test", .weight = gpu_w}, {}, y.view());
  const Tensor got = to_cpu(y);
  for (std::int64_t m = 0; m < 40; ++m) {
    for (std::int64_t n = 0; n < 24; ++n) {
      const float v = got.view().row<float>(m)[n];
      const bool is_as_it_should = m == 20 ? std::isnan(v) : m == 3 ? !std::isfinite(v) : std::isfinite(v);
      EXPECT_TRUE(is_as_it_should) << "row " << m << ", output " << n << ": " << v;
    }
  }
}

// The precision fp16: rows of any size meet float16 weights.
TEST_F(ModelOpsCuda, float16_projections) {
  for (const bool rounds_x : {false, true}) {
    rounds_x_ = rounds_x;
    for (const DType x : kFloats) {
      for (const std::int64_t m : {1, 129}) {
        for (const std::int64_t n : {7, 130}) {
          for (const std::int64_t k : {1, 8, 24, 40, 256}) expect_linear(x, DType::f16, DType::f32, m, n, k, k == 24);
        }
      }
      expect_linear(x, DType::f16, DType::f16, 300, 520, 4608, true);
    }
  }
  rounds_x_ = false;
  if (sm() > 90) return;
  for (const std::int64_t m : {1, 127, 128, 129, 300}) {
    for (const std::int64_t n : {1, 7, 128, 130}) {
      for (const std::int64_t k : {8, 24, 32, 40, 64, 72, 256}) expect_linear(DType::f16, DType::f16, DType::f16, m, n, k, m == 129, true);
    }
  }
  expect_linear(DType::f16, DType::f16, DType::f32, 300, 520, 4608, true, true);
}

// Rows far outside the range of float16, and an infinity or NaN that stays in its row.
TEST_F(ModelOpsCuda, float32_rows_of_any_size_meet_float16_weights) {
  constexpr std::int64_t kRows = 9, kColumns = 64, kK = 256;
  const Tensor x = gaussian(random(), DType::f32, {kRows, kK}), w = gaussian(random(), DType::f16, {kColumns, kK});
  const float sizes[kRows] = {1, 1e5f, 1e9f, 1e30f, 1e-6f, 1e-20f, 0, INFINITY, NAN};
  for (std::int64_t m = 0; m < kRows; ++m) {
    for (std::int64_t k = 0; k < kK; ++k) {
      float& value = x.as<float>()[m * kK + k];
      value = std::isfinite(sizes[m]) ? value * sizes[m] : k == 100 ? sizes[m] : value;
    }
  }
  const Tensor gpu_x = to_gpu(x), gpu_w = to_gpu(w), y(DType::f32, {kRows, kColumns}, gpu().device);
  ExecContext ctx = gpu_context();
  linear(ctx, gpu_x, {.name = "test", .weight = gpu_w, .rounds_x = true}, {}, y.view());
  const Tensor got = to_cpu(y), want(DType::f32, {kRows, kColumns}), size(DType::f32, {kRows, kColumns});
  linear_cpu(x, {.name = "test", .weight = w}, {}, want.view());
  linear_cpu(magnitudes(x), {.name = "size", .weight = magnitudes(w)}, {}, size.view());
  for (std::int64_t m = 0; m < kRows; ++m) {
    for (std::int64_t n = 0; n < kColumns; ++n) {
      const double a = got.as<float>()[m * kColumns + n], b = want.as<float>()[m * kColumns + n];
      if (std::isfinite(sizes[m])) {
        EXPECT_LE(std::fabs(a - b), (0x1p-24 * (2.0 * kK + 8) + half_step(DType::f16)) * double(size.as<float>()[m * kColumns + n]))
            << "row of size " << sizes[m] << ", column " << n;
      } else {
        EXPECT_FALSE(std::isfinite(a)) << "row of size " << sizes[m] << ", column " << n;
      }
    }
  }
}

// A row's bits do not depend on how many rows there are.
TEST_F(ModelOpsCuda, a_projected_row_does_not_depend_on_its_neighbours) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Tensor x = gaussian(random(), dtype, {300, 512}), w = gaussian(random(), DType::bf16, {200, 512});
    const Tensor gpu_x = to_gpu(x), gpu_w = to_gpu(w), all(DType::f32, {300, 200}, gpu().device), one(DType::f32, {1, 200}, gpu().device);
    ExecContext ctx = gpu_context();
    const LinearWeights weights{.name = "test", .weight = gpu_w};
    linear(ctx, gpu_x, weights, {}, all.view());
    linear(ctx, gpu_x.view().row_range(170, 1), weights, {}, one.view());
    const Tensor a = to_cpu(all), b = to_cpu(one);
    EXPECT_EQ(std::memcmp(a.view().row_bytes(170), b.view().data, b.bytes()), 0) << name_of(dtype);
  }
}

TEST_F(ModelOpsCuda, convolutions) {
  constexpr ConvArgs same{.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
  constexpr ConvArgs point{};
  constexpr ConvArgs down{.stride = 2, .pad_top = 0, .pad_left = 0, .pad_bottom = 1, .pad_right = 1};
  ConvArgs up = same;
  up.upsample_nearest_2x = true;
  for (const DType dtype : kFloats) {
    expect_conv(dtype, dtype, dtype, {9, 14, 32}, 40, 3, same, true);
    expect_conv(dtype, dtype, dtype, {9, 14, 24}, 3, 3, same, false);
    expect_conv(dtype, dtype, dtype, {12, 10, 16}, 136, 1, point, false);
    expect_conv(dtype, dtype, dtype, {12, 10, 16}, 32, 3, down, false);
    expect_conv(dtype, dtype, dtype, {7, 5, 64}, 64, 3, up, true);
    expect_conv(dtype, dtype, dtype, {1, 1, 8}, 8, 3, same, false);
    expect_conv(dtype, dtype, dtype, {6, 6, 5}, 7, 3, same, true);  // channels not in eights
  }
  for (const DType wide : {DType::f32, DType::bf16}) {  // what nothing bounds, beside float16 filters
    expect_conv(wide, DType::f16, wide, {9, 14, 32}, 40, 3, same, true);
    expect_conv(wide, DType::f16, wide, {7, 5, 64}, 64, 3, up, false);
    expect_conv(wide, DType::f16, DType::f16, {12, 10, 16}, 136, 1, point, false);
  }
  expect_conv(DType::f32, DType::bf16, DType::bf16, {8, 8, 32}, 64, 3, same, false);    // the first layer
  expect_conv(DType::bf16, DType::bf16, DType::f32, {16, 16, 128}, 3, 3, same, false);  // the last
}

TEST_F(ModelOpsCuda, group_norms) {
  for (const DType dtype : kFloats) {
    for (const bool silu : {false, true}) {
      expect_group_norm(dtype, {5, 7, 32}, 32, silu, 0);
      expect_group_norm(dtype, {16, 16, 128}, 32, silu, 3);
      expect_group_norm(dtype, {40, 33, 12}, 3, silu, 0);
      expect_group_norm(dtype, {1, 1, 20}, 5, silu, 0);
    }
  }
  expect_group_norm(DType::f32, {64, 64, 64}, 32, false, 100);
  for (const DType wide : {DType::f32, DType::bf16}) {
    expect_group_norm(wide, {16, 16, 128}, 32, true, 3, DType::f16);
    expect_group_norm(wide, {40, 33, 12}, 3, false, 0, DType::f16);
  }
}

TEST_F(ModelOpsCuda, embedded_rows_are_copies) {
  const Tensor table = gaussian(random(), DType::bf16, {50, 300});
  const std::vector<std::int32_t> ids = {0, 49, 7, 7, 23};
  const Tensor gpu_table = to_gpu(table), y(DType::f32, {5, 300}, gpu().device), want(DType::f32, {5, 300});
  ExecContext ctx = gpu_context();
  embed_rows(ctx, gpu_table, ids, y.view());
  embed_rows_cpu(table, ids, want.view());
  const Tensor got = to_cpu(y);
  EXPECT_EQ(std::memcmp(got.view().data, want.view().data, want.bytes()), 0);
}

TEST_F(ModelOpsCuda, sanitize_every_kernel) {
  expect_rope(DType::bf16, 5, 2, 256);
  expect_rope(DType::bf16, 5, 2, 96);
  expect_linear(DType::bf16, DType::bf16, DType::bf16, 130, 130, 104, true);
  expect_linear(DType::f32, DType::bf16, DType::f32, 70, 70, 33, true);
  expect_linear(DType::f32, DType::bf16, DType::f32, 70, 70, 328, true);
  rounds_x_ = true;
  expect_linear(DType::f32, DType::f16, DType::f32, 70, 70, 40, true);
  rounds_x_ = false;
  if (sm() <= 90) expect_linear(DType::f16, DType::f16, DType::f16, 130, 130, 104, true, true);
  constexpr ConvArgs same{.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
  expect_conv(DType::bf16, DType::bf16, DType::bf16, {13, 11, 40}, 24, 3, same, true);
  expect_conv(DType::f32, DType::bf16, DType::bf16, {5, 5, 6}, 5, 3, same, false);
  expect_conv(DType::f32, DType::f16, DType::f32, {13, 11, 40}, 24, 3, same, true);
  expect_group_norm(DType::bf16, {9, 9, 32}, 8, true, 0);
  expect_group_norm(DType::bf16, {9, 9, 12}, 3, true, 0);
}

}  // namespace
}  // namespace octavo
