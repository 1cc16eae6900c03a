// Float projections through cuBLASLt, where it is installed, against the plain CPU body.
#include <fmt/format.h>

#include <cmath>

#include "gpu/bounds_test.h"
#include "ops/linear/linear_backend.h"
#include "ops/linear/linear_cublaslt.h"
#include "ops/row_launch.h"

namespace octavo {
namespace {

using namespace octavo::testing;  // NOLINT

class CublasltCuda : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!cublaslt_missing().empty()) GTEST_SKIP() << "needs libcublasLt: " << cublaslt_missing();  // optional even where a GPU is required
  }

  void expect_linear(DType type, DType y_type, std::int64_t m, std::int64_t n, std::int64_t k, bool adds_to_y = false) {
    const std::string what = fmt::format("{} to {}{}, M {}, N {}, K {}", name_of(type), name_of(y_type), adds_to_y ? ", added to" : "", m, n, k);
    const Tensor x = gaussian(random(), type, {m, k}), w = gaussian(random(), type, {n, k}, 0.5f), before = gaussian(random(), y_type, {m, n + 64});
    const Tensor gpu_x = to_gpu(x), gpu_w = to_gpu(w), wide = to_gpu(before);
    const TensorView y = wide.view().column_range(64, n);  // strided, as a slice of a fused buffer is
    ExecContext ctx = gpu_context();
    FloatLinearLaunch launch{.x = rows_in(gpu_x), .w = rows_in(gpu_w), .y = rows_in(y), .m = m, .n = n, .k = k};
    Epilogue epilogue;
    if (adds_to_y) {
      launch.residual = launch.y;
      launch.factor = epilogue.factor = -0.75f;
      epilogue.residual = before.view().column_range(64, n);
    }
    ASSERT_TRUE(linear_cublaslt(ctx, launch, gpu().device)) << what;
    const Tensor want(DType::f32, {m, n}), size(DType::f32, {m, n}), abs_x = magnitudes(x), abs_w = magnitudes(w);
    linear_cpu(x, {.name = "test", .weight = w}, epilogue, want.view());
    linear_cpu(abs_x, {.name = "size", .weight = abs_w}, {}, size.view());
    const Tensor all = to_cpu(wide);
    Tensor got(y_type, {m, n});
    for (std::int64_t row = 0; row < m; ++row)
      std::memcpy(got.view().row_bytes(row), all.view().column_range(64, n).row_bytes(row), std::size_t(n) * bytes_of(y_type));
    const double steps = 0x1p-24 * (2.0 * double(k) + 8);
    // Some of the library's kernels round the product to y's type before they add what is there (seen on an H200 at N = 512).
    const double product_rounding = adds_to_y && y_type != DType::f32 ? half_step(y_type) : 0.0;
    expect_within(
        got, want,
        [&](std::int64_t i) {
          const double product = double(want.as<float>()[i]) - (adds_to_y ? double(element(before, i / n * (n + 64) + 64 + i % n)) : 0.0);
          return steps * (double(size.as<float>()[i]) + 8) + product_rounding * std::fabs(product);
        },
        what);
  }
};

TEST_F(CublasltCuda, projections_equal_the_cpu_body) {
  for (const DType type : {DType::bf16, DType::f16}) {
    for (const std::int64_t m : {1, 127, 300}) {
      for (const DType y : {type, DType::f32}) expect_linear(type, y, m, 256, 512);
    }
  }
  expect_linear(DType::bf16, DType::bf16, 200, 136, 4608);
}

// The precision fp16: rows that nothing bounds go as float16 after a power of two, and their sums are brought back.
TEST_F(CublasltCuda, float32_rows_beside_float16_weights) {
  constexpr std::int64_t kRows = 130, kColumns = 136, kK = 512;
  const Tensor x = gaussian(random(), DType::f32, {kRows, kK}), w = gaussian(random(), DType::f16, {kColumns, kK}, 0.5f);
  for (std::int64_t i = 0; i < kRows * kK; ++i) x.as<float>()[i] *= std::ldexp(1.0f, int(i / kK % 7) * 12 - 36);  // rows of 2^-36 to 2^36
  const Tensor gpu_x = to_gpu(x), gpu_w = to_gpu(w), y(DType::f32, {kRows, kColumns}, gpu().device);
  ExecContext ctx = gpu_context();
  linear(ctx, gpu_x, {.name = "test", .weight = gpu_w, .rounds_x = true}, {}, y.view());
  const Tensor got = to_cpu(y), want(DType::f32, {kRows, kColumns}), size(DType::f32, {kRows, kColumns}), abs_x = magnitudes(x), abs_w = magnitudes(w);
  linear_cpu(x, {.name = "test", .weight = w}, {}, want.view());
  linear_cpu(abs_x, {.name = "size", .weight = abs_w}, {}, size.view());
  const double steps = 0x1p-24 * (2.0 * kK + 8) + half_step(DType::f16);
  expect_within(got, want, [&](std::int64_t i) { return steps * double(size.as<float>()[i]); }, "f32 x f16 to f32");
}

// What a LoRA asks for: a few outputs of many inputs, and many outputs of a few inputs added to what is there.
TEST_F(CublasltCuda, thin_products_and_sums_in_place_equal_the_cpu_body) {
  for (const std::int64_t m : {1, 127, 1200}) {
    for (const std::int64_t thin : {8, 16, 72}) {
      expect_linear(DType::bf16, DType::bf16, m, thin, 4608);
      expect_linear(DType::bf16, DType::bf16, m, 512, thin, true);
      expect_linear(DType::bf16, DType::f32, m, 256, thin, true);
    }
  }
}

TEST_F(CublasltCuda, leaves_alone_what_it_cannot_express) {
  const Tensor x = to_gpu(gaussian(random(), DType::bf16, {8, 64})), w = to_gpu(gaussian(random(), DType::f32, {16, 64}));
  const Tensor y(DType::bf16, {8, 16}, gpu().device);
  ExecContext ctx = gpu_context();
  EXPECT_FALSE(linear_cublaslt(ctx, {.x = rows_in(x), .w = rows_in(w), .y = rows_in(y), .m = 8, .n = 16, .k = 64}, gpu().device)) << "two types";
  EXPECT_FALSE(linear_cublaslt(ctx, {.x = rows_in(x), .w = rows_in(x), .y = rows_in(y), .m = 8, .n = 8, .k = 64, .silu = true}, gpu().device)) << "an epilogue";
}

}  // namespace
}  // namespace octavo
