// Attention on the GPU against its plain CPU body.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpu/bounds_test.h"
#include "octavo/error.h"
#include "ops/attention/attention_backend.h"
#include "ops/attention/attention_launch.h"
#include "ops/row_launch.h"

namespace octavo {
namespace {

using namespace octavo::testing;  // NOLINT

struct AttentionCase {
  DType dtype = DType::bf16;
  std::int64_t queries = 0, keys = 0;
  int heads = 1, kv_heads = 1, head_dim = 64;
  bool causal = false;
  bool mma_body = false;  // the mma.sync kernel, whatever this GPU would choose
};

class AttentionCuda : public GpuTest {
 protected:
  // q, k and v stand behind each other in one fused tensor, as a projection leaves them.
  void expect_attention(const AttentionCase& c) {
    const std::string what = fmt::format("{} {} queries, {} keys, {} of {} heads, D {}{}", name_of(c.dtype), c.queries, c.keys, c.heads, c.kv_heads, c.head_dim,
                                         c.causal ? ", causal" : "");
    const std::int64_t q_columns = std::int64_t(c.heads) * c.head_dim, kv_columns = std::int64_t(c.kv_heads) * c.head_dim;
    const std::int64_t rows = std::max(c.queries, c.keys);
    const Tensor fused = gaussian(random(), c.dtype, {rows, q_columns + 2 * kv_columns});
    const auto part = [&](const TensorView& all, std::int64_t first, std::int64_t count, std::int64_t m) {
      return all.column_range(first, count).row_range(0, m);
    };
    const TensorView q = part(fused, 0, q_columns, c.queries), k = part(fused, q_columns, kv_columns, c.keys);
    const TensorView v = part(fused, q_columns + kv_columns, kv_columns, c.keys);
    const AttentionArgs args{.heads = c.heads, .kv_heads = c.kv_heads, .softmax_scale = 1.0f / std::sqrt(float(c.head_dim)), .causal = c.causal};

    const Tensor gpu_fused = to_gpu(fused);
    const Tensor y(c.dtype, {c.queries, q_columns}, gpu().device, "y");
    ExecContext ctx = gpu_context();
    const TensorView gpu_q = part(gpu_fused, 0, q_columns, c.queries), gpu_k = part(gpu_fused, q_columns, kv_columns, c.keys);
    const TensorView gpu_v = part(gpu_fused, q_columns + kv_columns, kv_columns, c.keys);
    if (c.mma_body) {
      const AttentionLaunch launch{.q = rows_in(gpu_q),
                                   .k = rows_in(gpu_k),
                                   .v = rows_in(gpu_v),
                                   .y = rows_in(y),
                                   .queries = c.queries,
                                   .keys = c.keys,
                                   .heads = c.heads,
                                   .kv_heads = c.kv_heads,
                                   .head_dim = c.head_dim,
                                   .softmax_scale = args.softmax_scale,
                                   .causal = c.causal};
      ASSERT_TRUE(fits_attention_mma(launch, sm())) << what;
      launch_attention_mma(launch, stream_of(ctx));
    } else {
      attention(ctx, gpu_q, gpu_k, gpu_v, args, y.view());
    }

    const Tensor want(DType::f32, {c.queries, q_columns}), weight(DType::f32, {c.queries, q_columns});
    attention_cpu(q, k, v, args, want.view());
    attention_cpu(q, k, magnitudes(v), args, weight.view());  // Σ p |v|
    // The weights p are rounded to the type of v before the second product (2^-8 in bf16); scores are sums of D products in float32, of magnitude below 8 here,
    // each rounding 2^-24; exp and the sums over the keys add the rest.
    const double p_rounding = c.dtype == DType::f32 ? 0.0 : half_step(c.dtype);
    const double float_error = 0x1p-24 * (8.0 * c.head_dim + 2.0 * double(c.keys) + 64);
    expect_within(to_cpu(y), want, [&](std::int64_t i) { return (p_rounding + float_error) * double(weight.as<float>()[i]); }, what);
  }
};

TEST_F(AttentionCuda, every_head_size_and_tail) {
  for (const int head_dim : {64, 128, 256, 512}) {
    for (const std::int64_t rows : {1, 16, 63, 64, 65, 127, 200}) {
      expect_attention({.dtype = DType::bf16, .queries = rows, .keys = rows, .heads = 3, .kv_heads = 3, .head_dim = head_dim});
    }
    for (const bool mma_body : {false, true}) {
      expect_attention({.dtype = DType::f16, .queries = 130, .keys = 130, .heads = 2, .kv_heads = 2, .head_dim = head_dim, .mma_body = mma_body});
      expect_attention({.dtype = DType::bf16, .queries = 129, .keys = 161, .heads = 2, .kv_heads = 1, .head_dim = head_dim, .mma_body = mma_body});
    }
    expect_attention({.dtype = DType::bf16, .queries = 100, .keys = 333, .heads = 2, .kv_heads = 2, .head_dim = head_dim});  // the last layer: fewer queries
  }
}

TEST_F(AttentionCuda, shared_heads_and_causal_order) {
  for (const int head_dim : {64, 128, 256, 512}) {
    for (const std::int64_t rows : {1, 64, 65, 257}) {
      expect_attention({.dtype = DType::bf16, .queries = rows, .keys = rows, .heads = 8, .kv_heads = 2, .head_dim = head_dim, .causal = true});
    }
  }
}

TEST_F(AttentionCuda, sizes_without_tensor_cores) {
  for (const int head_dim : {1, 16, 32, 48, 96, 512, 1024}) {
    expect_attention({.dtype = DType::bf16, .queries = 33, .keys = 77, .heads = 2, .kv_heads = 1, .head_dim = head_dim});
    expect_attention({.dtype = DType::f32, .queries = 40, .keys = 40, .heads = 2, .kv_heads = 2, .head_dim = head_dim, .causal = true});
  }
  expect_attention({.dtype = DType::f32, .queries = 65, .keys = 130, .heads = 2, .kv_heads = 2, .head_dim = 256});
}

// The sequence of the model at 1024x1024 with text, one head.
TEST_F(AttentionCuda, a_long_sequence) {
  for (const bool mma_body : {false, true})
    expect_attention({.dtype = DType::bf16, .queries = 600, .keys = 4608, .heads = 1, .kv_heads = 1, .head_dim = 256, .mma_body = mma_body});
}

// A row depends on its own query alone: the same bits among other queries, and twice the same bits.
TEST_F(AttentionCuda, a_row_does_not_depend_on_its_neighbours) {
  for (const int head_dim : {32, 64, 128, 256, 512}) {
    const Tensor q = gaussian(random(), DType::bf16, {200, head_dim}), k = gaussian(random(), DType::bf16, {300, head_dim});
    const Tensor gpu_q = to_gpu(q), gpu_k = to_gpu(k);
    const AttentionArgs args{.heads = 1, .kv_heads = 1, .softmax_scale = 0.125f};
    ExecContext ctx = gpu_context();
    const Tensor all(DType::bf16, {200, head_dim}, gpu().device), some(DType::bf16, {7, head_dim}, gpu().device);
    attention(ctx, gpu_q, gpu_k, gpu_k, args, all.view());
    attention(ctx, gpu_q.view().row_range(100, 7), gpu_k, gpu_k, args, some.view());
    const Tensor a = to_cpu(all), b = to_cpu(some);
    EXPECT_EQ(std::memcmp(a.view().row_bytes(100), b.view().data, b.bytes()), 0) << "D " << head_dim;
  }
}

TEST_F(AttentionCuda, a_nan_stays_in_its_row) {
  const Tensor q = gaussian(random(), DType::bf16, {70, 128}), k = gaussian(random(), DType::bf16, {90, 128});
  q.as<bf16>()[5 * 128 + 3] = to_bf16(std::nanf(""));
  const Tensor y(DType::bf16, {70, 128}, gpu().device);
  ExecContext ctx = gpu_context();
  const Tensor gpu_q = to_gpu(q), gpu_k = to_gpu(k);
  attention(ctx, gpu_q, gpu_k, gpu_k, {.heads = 1, .kv_heads = 1, .softmax_scale = 0.1f}, y.view());
  const Tensor got = to_cpu(y);
  for (std::int64_t m = 0; m < 70; ++m) EXPECT_EQ(std::isnan(element(got, m * 128)), m == 5) << m;
}

// Large scores: the running maximum must hold exp within range.
TEST_F(AttentionCuda, one_key_far_above_the_others) {
  const Tensor q = gaussian(random(), DType::bf16, {64, 64}, 30), k = gaussian(random(), DType::bf16, {256, 64}, 30);
  const Tensor v = gaussian(random(), DType::bf16, {256, 64});
  const Tensor y(DType::bf16, {64, 64}, gpu().device);
  ExecContext ctx = gpu_context();
  const Tensor gpu_q = to_gpu(q), gpu_k = to_gpu(k), gpu_v = to_gpu(v);
  attention(ctx, gpu_q, gpu_k, gpu_v, {.heads = 1, .kv_heads = 1, .softmax_scale = 1.0f}, y.view());
  const Tensor got = to_cpu(y);
  for (std::int64_t i = 0; i < 64 * 64; ++i) ASSERT_TRUE(std::isfinite(element(got, i))) << i;
}

TEST_F(AttentionCuda, sanitize_every_kernel) {
  for (const int head_dim : {32, 64, 128, 256, 512}) {
    expect_attention({.dtype = DType::bf16, .queries = 70, .keys = 70, .heads = 2, .kv_heads = 1, .head_dim = head_dim, .causal = true});
    expect_attention({.dtype = DType::bf16, .queries = 70, .keys = 190, .heads = 2, .kv_heads = 1, .head_dim = head_dim});
  }
  expect_attention({.dtype = DType::bf16, .queries = 70, .keys = 190, .heads = 2, .kv_heads = 1, .head_dim = 256, .mma_body = true});
}

TEST_F(AttentionCuda, refuses_a_head_that_no_kernel_holds) {
  const Tensor x(DType::f32, {2, 2048}, gpu().device), y(DType::f32, {2, 2048}, gpu().device);
  ExecContext ctx = gpu_context();
  EXPECT_THROW(attention(ctx, x, x, x, {.heads = 1, .kv_heads = 1, .softmax_scale = 1}, y.view()), Unsupported);
}

}  // namespace
}  // namespace octavo
