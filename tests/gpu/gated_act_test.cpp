// SiLU products on the GPU against their plain CPU bodies, by the rule of numerics.md section 3.
#include <fmt/format.h>

#include "gpu/row_ops_test.h"
#include "ops/gated_act/gated_act_backend.h"

namespace octavo {
namespace {

using namespace octavo::testing;  // NOLINT

class GatedActCuda : public GpuTest {
 protected:
  // expf on the GPU is within 2 ulp, on the host within 1; the quotient adds 1 and 0.5, the product 0.5 on both sides.
  static constexpr int kSiluUlps = 6;

  void expect_silu_mul(DType dtype, std::int64_t rows, std::int64_t columns, int group) {
    const std::string what = fmt::format("{} [{}, {}], group {}", name_of(dtype), rows, columns, group);
    // One projection wrote both halves: strided views of one tensor, as the model has them.
    const Tensor both = random_rows(random(), dtype, rows, 2 * columns, group >= 0);
    const Tensor gpu_both = to_gpu(both);
    const TensorView a = both.view().column_range(0, columns);
    const TensorView b = both.view().column_range(columns, columns);
    ExecContext ctx = gpu_context();
    const TensorView gpu_a = gpu_both.view().column_range(0, columns);
    const TensorView gpu_b = gpu_both.view().column_range(columns, columns);
    if (group < 0) {
      const Tensor y = to_gpu(poisoned(dtype, {rows, columns}));
      const Tensor expected(dtype, {rows, columns});
      silu_mul(ctx, gpu_a, gpu_b, y.view());
      silu_mul_cpu(a, b, expected.view());
      expect_close_floats(to_cpu(y), expected, 1e-3, kSiluUlps, what);
    } else {
      const Codes codes(rows, columns, group, gpu().device);
      const Codes expected(rows, columns, group, Device{});
      silu_mul(ctx, gpu_a, gpu_b, codes.view());
      silu_mul_cpu(a, b, expected.view());
      // The largest value decides the scale, and it is off by as much as a float output is.
      const std::vector<std::int64_t> slack(std::size_t(rows), kSiluUlps - 3);
      expect_close_codes(to_cpu(codes.q), to_cpu(codes.scale), expected, what, slack);
    }
  }
};

TEST_F(GatedActCuda, silu_mul_of_every_row_length) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const std::int64_t columns : {1, 17, 64, 500, 512, 4608, 6144, 12288, 14336}) {
      for (const int group : {-1, 0}) expect_silu_mul(dtype, 9, columns, group);
    }
  }
}

TEST_F(GatedActCuda, rotated_codes) {
  for (const int group : {4, 16, 64, 256}) {
    for (const std::int64_t columns : {256, 4608, 12288}) expect_silu_mul(DType::bf16, 9, columns, group);
  }
  expect_silu_mul(DType::bf16, 9, 12288, 1024);
  expect_silu_mul(DType::f32, 9, 12288, 256);
}

TEST_F(GatedActCuda, every_small_number_of_rows_and_last_segment) {
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 131, 133, 397, 529, 1057}) {
    for (const int group : {-1, 0, 256}) expect_silu_mul(DType::bf16, rows, 4608, group);
    expect_silu_mul(DType::bf16, rows, 1040, 16);
  }
  for (const std::int64_t rows : {1, 265, 529}) expect_silu_mul(DType::bf16, rows, 12288, 256);
  for (std::int64_t columns = 16; columns <= 1040; columns += 16) expect_silu_mul(DType::bf16, 7, columns, 0);
  for (const std::int64_t columns : {2048, 2064, 2576, 3088, 6160, 12272, 18432}) expect_silu_mul(DType::bf16, 7, columns, 16);
}

TEST_F(GatedActCuda, large_and_small_gates) {
  // exp overflows on one side and vanishes on the other; NaN must not be hidden.
  const std::vector<float> gates = {-1e30f,
                                    -200.0f,
                                    -88.8f,
                                    -87.0f,
                                    -20.0f,
                                    -1e-30f,
                                    0.0f,
                                    1e-30f,
                                    20.0f,
                                    90.0f,
                                    1e30f,
                                    std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::quiet_NaN()};
  Tensor x(DType::f32, {1, std::int64_t(gates.size())});
  std::copy(gates.begin(), gates.end(), x.as<float>());
  const Tensor gpu_x = to_gpu(x);
  ExecContext ctx = gpu_context();
  silu(ctx, gpu_x);
  silu_cpu(x);
  const Tensor got = to_cpu(gpu_x);
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const float a = got.as<float>()[i];
    const float b = x.as<float>()[i];
    if (gates[i] < -86.0f) {
      EXPECT_NEAR(a, b, std::fabs(gates[i]) * 0x1p-124f) << gates[i];  // bounded by |a| / 2^125 on one side, 0 on the other
    } else {
      EXPECT_LE(ulps_between(a, b), kSiluUlps) << gates[i] << ": " << a << " against " << b;
    }
  }
}

TEST_F(GatedActCuda, output_may_alias_an_input) {
  const Tensor a = random_rows(random(), DType::bf16, 31, 4608, false);
  const Tensor b = random_rows(random(), DType::bf16, 31, 4608, false);
  const Tensor gpu_a = to_gpu(a);
  const Tensor gpu_b = to_gpu(b);
  const Tensor expected(DType::bf16, {31, 4608});
  ExecContext ctx = gpu_context();
  silu_mul(ctx, gpu_a, gpu_b, gpu_a.view());
  silu_mul_cpu(a, b, expected.view());
  expect_close_floats(to_cpu(gpu_a), expected, 1e-3, kSiluUlps, "alias");
}

TEST_F(GatedActCuda, sanitize_every_kernel) {
  for (const int group : {-1, 0, 256}) {
    for (const std::int64_t columns : {768, 6400}) expect_silu_mul(DType::bf16, 5, columns, group);
  }
  expect_silu_mul(DType::bf16, 5, 20, 4);
}

}  // namespace
}  // namespace octavo
