// Row quantisation on the GPU: the bits of the plain CPU body.
#include <fmt/format.h>

#include "gpu/row_ops_test.h"
#include "octavo/error.h"
#include "ops/quantize/quantize_backend.h"

namespace octavo {
namespace {

using namespace octavo::testing;  // NOLINT

class QuantizeCuda : public GpuTest {
 protected:
  // Both devices on the same rows; `offset` columns in front make the view strided and, if odd, misaligned.
  void expect_equal(DType dtype, std::int64_t rows, std::int64_t columns, int group, std::int64_t offset, Smoothing way = Smoothing::none) {
    const std::string what = fmt::format("{} [{}, {}], group {}, offset {}, smoothing {}", name_of(dtype), rows, columns, group, offset, int(way));
    const Tensor wide = random_rows(random(), dtype, rows, columns + offset, true);
    const TensorView x = wide.view().column_range(offset, columns);
    if (dtype == DType::f32 && rows > 6)
      // Sums of four, or smoothed of eight, overflow where the rotation leaves its halves out; in the definition none does, smoothing up to 2^1.5 included.
      std::fill_n(x.row<float>(6), columns, way == Smoothing::none ? 1e38f : 3e37f);
    Codes expected(rows, columns, group, Device{});
    std::normal_distribution<float> gauss;
    const Tensor smooth(DType::f32, {columns});
    for (std::int64_t k = 0; k < columns; ++k) smooth.as<float>()[k] = way == Smoothing::none ? 1.0f : std::exp2(0.3f * gauss(random()));
    quantize_rows_cpu(x, expected.view(), {way, smooth});
    const Tensor gpu_smooth = to_gpu(smooth);

    const Tensor gpu_wide = to_gpu(wide);
    const Tensor q_wide = to_gpu(poisoned(DType::s8, {rows, columns + offset}));
    const Tensor scale = to_gpu(poisoned(DType::f32, {rows}));
    ExecContext ctx = gpu_context();
    quantize_rows(ctx, gpu_wide.view().column_range(offset, columns), {q_wide.view().column_range(offset, columns), scale, group}, {way, gpu_smooth});
    const Tensor got = to_cpu(q_wide);
    Tensor q(DType::s8, {rows, columns});
    for (std::int64_t m = 0; m < rows; ++m) {
      for (std::int64_t k = 0; k < offset; ++k)
        ASSERT_EQ(int(got.as<std::int8_t>()[m * (columns + offset) + k]), -127) << what << ": wrote outside its columns";
      std::copy_n(got.as<std::int8_t>() + m * (columns + offset) + offset, columns, q.as<std::int8_t>() + m * columns);
    }
    expect_equal_codes(q, to_cpu(scale), expected, what);
  }
};

TEST_F(QuantizeCuda, every_row_length_gives_the_bits_of_the_definition) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const std::int64_t columns : {1, 7, 8, 16, 17, 24, 40, 64, 100, 256, 496, 512, 528, 840, 2520, 4608, 6144, 6160, 12288, 12304, 53248})
      expect_equal(dtype, 9, columns, 0, 0);
  }
}

TEST_F(QuantizeCuda, strided_and_misaligned_rows) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const std::int64_t offset : {1, 3, 8, 16, 64}) expect_equal(dtype, 7, 512, 0, offset);
    expect_equal(dtype, 7, 4608, 256, 16);
    expect_equal(dtype, 7, 4608, 256, 1);
  }
}

TEST_F(QuantizeCuda, rotation_groups_give_the_bits_of_the_definition) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const int group : {4, 16, 64, 256}) {
      for (const std::int64_t columns : {256, 768, 4608, 12288}) expect_equal(dtype, 9, columns, group, 0);
    }
    expect_equal(dtype, 9, 1024, 1024, 0);
    expect_equal(dtype, 9, 53248, 4096, 0);
    expect_equal(dtype, 9, 32768, 16384, 0);
    expect_equal(dtype, 9, 53248, 256, 0);
    expect_equal(dtype, 9, 20, 4, 0);
  }
}

// One float32 quotient or product more a value, and still the bits of the definition.
TEST_F(QuantizeCuda, smoothed_rows_give_the_bits_of_the_definition) {
  for (const Smoothing way : {Smoothing::divide, Smoothing::multiply}) {
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
      for (const std::int64_t columns : {1, 17, 64, 512, 528, 2048, 2064, 4608, 6160, 12288, 18432, 53248}) expect_equal(dtype, 9, columns, 0, 0, way);
      for (const std::int64_t columns : {256, 768, 4608, 12288}) expect_equal(dtype, 9, columns, 256, 0, way);
      expect_equal(dtype, 9, 1024, 1024, 0, way);
      expect_equal(dtype, 7, 512, 0, 1, way);
      expect_equal(dtype, 7, 4608, 16, 16, way);
    }
    for (const std::int64_t rows : {1, 5, 133, 1057, 5000}) expect_equal(DType::bf16, rows, 4608, 256, 0, way);
  }
}

TEST_F(QuantizeCuda, every_small_number_of_rows) {
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 31, 132, 133, 397, 529, 1057}) {
    for (const int group : {0, 256}) {
      expect_equal(DType::bf16, rows, 4608, group, 0);
      expect_equal(DType::bf16, rows, 256, group, 0);
    }
    expect_equal(DType::f32, rows, 1040, 16, 0);
  }
  for (const std::int64_t rows : {1, 265, 397, 793}) expect_equal(DType::bf16, rows, 12288, 256, 0);
}

TEST_F(QuantizeCuda, last_segments_of_every_length) {
  for (std::int64_t columns = 16; columns <= 1040; columns += 16) {
    expect_equal(DType::bf16, 7, columns, 0, 0);
    expect_equal(DType::f32, 7, columns, 16, 0);
  }
  for (const std::int64_t columns : {2048, 2064, 2576, 3088, 6160, 12272, 18432}) expect_equal(DType::bf16, 7, columns, 16, 0);
}

TEST_F(QuantizeCuda, many_rows_and_none) {
  expect_equal(DType::bf16, 5000, 256, 0, 0);
  expect_equal(DType::bf16, 5000, 256, 256, 0);
  expect_equal(DType::bf16, 1, 4608, 0, 0);
  ExecContext ctx = gpu_context();
  const Tensor x(DType::bf16, {0, 64}, gpu().device);
  const Tensor q(DType::s8, {0, 64}, gpu().device);
  const Tensor scale(DType::f32, {0}, gpu().device);
  EXPECT_NO_THROW(quantize_rows(ctx, x, {q, scale, 0}));
}

TEST_F(QuantizeCuda, rows_beyond_two_billion_elements) {
  constexpr std::int64_t kRows = 4097;
  constexpr std::int64_t kStride = 1 << 19;  // 4097 · 2^19 elements: offsets pass 2^31
  constexpr std::int64_t kColumns = 512;
  if (gpu().caps.free_bytes < std::int64_t(8) << 30) OCTAVO_SKIP_GPU_TEST("8 GiB of GPU memory");
  const Tensor big(DType::bf16, {kRows, kStride}, gpu().device, "large rows");
  const Tensor last = random_rows(random(), DType::bf16, 1, kColumns, false);
  const TensorView row = big.view().row_range(kRows - 1, 1).column_range(0, kColumns);
  copy_bytes(row.data, gpu().device, last.view().data, Device{}, last.bytes(), &gpu().stream);
  const Tensor q(DType::s8, {kRows, kColumns}, gpu().device);
  const Tensor scale(DType::f32, {kRows}, gpu().device);
  ExecContext ctx = gpu_context();
  quantize_rows(ctx, big.view().column_range(0, kColumns), {q, scale, 0});
  Codes expected(1, kColumns, 0, Device{});
  quantize_rows_cpu(last, expected.view());
  const Tensor all = to_cpu(q);
  EXPECT_EQ(std::memcmp(all.as<std::int8_t>() + (kRows - 1) * kColumns, expected.q.as<std::int8_t>(), kColumns), 0);
}

TEST_F(QuantizeCuda, a_group_that_no_gpu_can_hold_is_refused) {
  const Tensor x(DType::bf16, {1, 65536}, gpu().device);
  const Tensor q(DType::s8, {1, 65536}, gpu().device);
  const Tensor scale(DType::f32, {1}, gpu().device);
  ExecContext ctx = gpu_context();
  EXPECT_THROW(quantize_rows(ctx, x, {q, scale, 65536}), Unsupported);
}

TEST_F(QuantizeCuda, sanitize_every_kernel) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const int group : {0, 256}) {
      expect_equal(dtype, 7, 768, group, 0);
      expect_equal(dtype, 7, 6400, group, 0);
      expect_equal(dtype, 7, 768, group, 1);
      for (const std::int64_t columns : {768, 6400}) expect_equal(dtype, 7, columns, group, 0, Smoothing::divide);
    }
  }
}

}  // namespace
}  // namespace octavo
