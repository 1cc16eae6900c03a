// Attention on the GPU against its plain CPU body.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpu/bounds_test.h"
#include "octavo/error.h"
#include "ops/attention/attention_backend.h"
#include "ops/attention/attention_int8_backend.h"
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
  bool turing_body = false;
};

class AttentionCuda : public GpuTest {
 protected:
  // The mma.sync kernel, or Turing's, which a GPU with a newer one would not choose.
  void run_mma_body(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y,
                    bool turing = false) {
    const AttentionLaunch launch{.q = rows_in(q),
                                 .k = rows_in(k),
                                 .v = rows_in(v),
                                 .y = rows_in(y),
                                 .queries = q.rows(),
                                 .keys = k.rows(),
                                 .heads = args.heads,
                                 .kv_heads = args.kv_heads,
                                 .head_dim = int(q.columns() / args.heads),
                                 .softmax_scale = args.softmax_scale,
                                 .causal = args.causal};
    ASSERT_TRUE(turing ? fits_attention_turing(launch, sm()) : fits_attention_mma(launch, sm()));
    turing ? launch_attention_turing(launch, stream_of(ctx)) : launch_attention_mma(launch, stream_of(ctx));
  }

  // q, k and v stand behind each other in one fused tensor, as a projection leaves them.
  void expect_attention(const AttentionCase& c) {
    if (c.mma_body && sm() < 80) return;
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
    if (c.mma_body || c.turing_body) {
      run_mma_body(ctx, gpu_q, gpu_k, gpu_v, args, y, c.turing_body);
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

TEST_F(AttentionCuda, turing_body_in_float16) {
  if (sm() > 90) return;  // it is built up to there
  for (const int head_dim : {64, 128, 256, 512}) {
    for (const std::int64_t rows : {1, 15, 16, 31, 32, 33, 63, 64, 65, 127, 200}) {
      expect_attention({.dtype = DType::f16, .queries = rows, .keys = rows, .heads = 3, .kv_heads = 3, .head_dim = head_dim, .turing_body = true});
      expect_attention(
          {.dtype = DType::f16, .queries = rows, .keys = rows, .heads = 8, .kv_heads = 2, .head_dim = head_dim, .causal = true, .turing_body = true});
    }
    expect_attention({.dtype = DType::f16, .queries = 129, .keys = 161, .heads = 2, .kv_heads = 1, .head_dim = head_dim, .turing_body = true});
    expect_attention({.dtype = DType::f16, .queries = 100, .keys = 333, .heads = 2, .kv_heads = 2, .head_dim = head_dim, .turing_body = true});
  }
  expect_attention({.dtype = DType::f16, .queries = 600, .keys = 4608, .heads = 1, .kv_heads = 1, .head_dim = 256, .turing_body = true});
}

// The kernel of head_dim 256: tails of a tile of 32 keys, of a warp's half of it, of 128 and 64 queries.
TEST_F(AttentionCuda, pairs_tails) {
  for (const std::int64_t keys : {1, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100})
    expect_attention({.dtype = DType::bf16, .queries = 33, .keys = keys, .heads = 2, .kv_heads = 2, .head_dim = 256, .mma_body = true});
  for (const std::int64_t queries : {1, 15, 16, 17, 32, 63, 64, 65, 127, 128, 129, 191, 193, 257}) {
    expect_attention({.dtype = DType::f16, .queries = queries, .keys = 77, .heads = 3, .kv_heads = 1, .head_dim = 256, .mma_body = true});
    expect_attention({.dtype = DType::bf16, .queries = queries, .keys = queries, .heads = 2, .kv_heads = 1, .head_dim = 256, .causal = true, .mma_body = true});
  }
}

// Scores that jump: the reference of a row has to follow, at other tiles than its neighbours', and a row has the same bits among other rows, in a tile of 128
// queries and in a half.
TEST_F(AttentionCuda, pairs_follow_each_row) {
  if (sm() < 80) return;
  constexpr std::int64_t kQueries = 300, kKeys = 260;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor q = gaussian(random(), dtype, {kQueries, 256}), k = gaussian(random(), dtype, {kKeys, 256}), v = gaussian(random(), dtype, {kKeys, 256});
    // Query m and keys from 40 · (m % 7) on: larger and larger together.
    for (std::int64_t m = 0; m < kQueries; ++m) {
      for (std::int64_t key = m % 7 * 40; key < kKeys; key += 97) {
        for (int d = 0; d < 64; ++d) {
          const float value = element(q, m * 256 + d) * float(1 + key / 97);
          dtype == DType::bf16 ? void(k.as<bf16>()[key * 256 + d] = to_bf16(value)) : void(k.as<f16>()[key * 256 + d] = to_f16(value));
        }
      }
    }
    const AttentionArgs args{.heads = 1, .kv_heads = 1, .softmax_scale = 0.25f};
    ExecContext ctx = gpu_context();
    const Tensor gpu_q = to_gpu(q), gpu_k = to_gpu(k), gpu_v = to_gpu(v);
    const Tensor all(dtype, {kQueries, 256}, gpu().device);
    run_mma_body(ctx, gpu_q, gpu_k, gpu_v, args, all);
    const Tensor got = to_cpu(all);
    const Tensor want(DType::f32, {kQueries, 256}), weight(DType::f32, {kQueries, 256});
    attention_cpu(q, k, v, args, want.view());
    attention_cpu(q, k, magnitudes(v), args, weight.view());
    // Scores reach 0.25 · 3 · |q|² = about 100: their rounding moves a weight by 2^-24 · 256 · 100.
    const double bound = half_step(dtype) + 0x1p-24 * 256 * 200;
    expect_within(got, want, [&](std::int64_t i) { return bound * double(weight.as<float>()[i]); }, std::string(name_of(dtype)));
    for (const std::int64_t first : {0, 1, 31, 64, 130, 299}) {
      const std::int64_t count = std::min<std::int64_t>(kQueries - first, 40);
      const Tensor some(dtype, {count, 256}, gpu().device);
      run_mma_body(ctx, gpu_q.view().row_range(first, count), gpu_k, gpu_v, args, some);
      const Tensor part = to_cpu(some);
      EXPECT_EQ(std::memcmp(got.view().row_bytes(first), part.view().data, part.bytes()), 0) << name_of(dtype) << " from " << first;
    }
  }
}

// A row's bits do not depend on where it stands: among 60 heads, most tiles of 128 queries are whole; alone, a head is cut in halves.
TEST_F(AttentionCuda, pairs_whole_and_half_tiles_give_the_same_bits) {
  constexpr int kHeads = 60;
  const Tensor q = to_gpu(gaussian(random(), DType::bf16, {300, kHeads * 256})), k = to_gpu(gaussian(random(), DType::bf16, {210, 256}));
  const Tensor all(DType::bf16, {300, kHeads * 256}, gpu().device);
  ExecContext ctx = gpu_context();
  run_mma_body(ctx, q, k, k, {.heads = kHeads, .kv_heads = 1, .softmax_scale = 0.25f}, all);
  const Tensor got = to_cpu(all);
  for (const int head : {0, 1, 30, 58, 59}) {
    const Tensor one(DType::bf16, {300, 256}, gpu().device);
    run_mma_body(ctx, q.view().column_range(head * 256, 256), k, k, {.heads = 1, .kv_heads = 1, .softmax_scale = 0.25f}, one);
    const Tensor alone = to_cpu(one);
    int differ = 0, first = -1;
    for (int row = 0; row < 300; ++row) {
      if (std::memcmp(got.view().column_range(head * 256, 256).row_bytes(row), alone.view().row_bytes(row), 512) == 0) continue;
      first = first < 0 ? row : first;
      ++differ;
    }
    EXPECT_EQ(differ, 0) << "head " << head << ": so many rows differ, the first is " << first;
  }
}

// A row depends on its own query alone: the same bits among other queries, and twice the same bits.
TEST_F(AttentionCuda, a_row_does_not_depend_on_its_neighbours) {
  for (const auto& [dtype, head_dim] : {std::pair{DType::bf16, 32}, std::pair{DType::bf16, 64}, std::pair{DType::bf16, 128}, std::pair{DType::bf16, 256},
                                        std::pair{DType::bf16, 512}, std::pair{DType::f16, 64}, std::pair{DType::f16, 256}}) {
    const Tensor q = gaussian(random(), dtype, {200, head_dim}), k = gaussian(random(), dtype, {300, head_dim});
    const Tensor gpu_q = to_gpu(q), gpu_k = to_gpu(k);
    const AttentionArgs args{.heads = 1, .kv_heads = 1, .softmax_scale = 0.125f};
    ExecContext ctx = gpu_context();
    const Tensor all(dtype, {200, head_dim}, gpu().device), some(dtype, {7, head_dim}, gpu().device);
    attention(ctx, gpu_q, gpu_k, gpu_k, args, all.view());
    attention(ctx, gpu_q.view().row_range(100, 7), gpu_k, gpu_k, args, some.view());
    const Tensor a = to_cpu(all), b = to_cpu(some);
    EXPECT_EQ(std::memcmp(a.view().row_bytes(100), b.view().data, b.bytes()), 0) << "D " << head_dim;
  }
}

TEST_F(AttentionCuda, a_nan_stays_in_its_row) {
  for (const std::int64_t head_dim : {128, 256}) {
    const Tensor q = gaussian(random(), DType::bf16, {70, head_dim}), k = gaussian(random(), DType::bf16, {90, head_dim});
    q.as<bf16>()[5 * head_dim + 3] = to_bf16(std::nanf(""));
    const Tensor y(DType::bf16, {70, head_dim}, gpu().device);
    ExecContext ctx = gpu_context();
    const Tensor gpu_q = to_gpu(q), gpu_k = to_gpu(k);
    const AttentionArgs args{.heads = 1, .kv_heads = 1, .softmax_scale = 0.1f};
    sm() < 80 ? attention(ctx, gpu_q, gpu_k, gpu_k, args, y.view()) : run_mma_body(ctx, gpu_q, gpu_k, gpu_k, args, y);
    const Tensor got = to_cpu(y);
    for (std::int64_t m = 0; m < 70; ++m) EXPECT_EQ(std::isnan(element(got, m * head_dim)), m == 5) << head_dim << " " << m;
  }
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
  expect_attention({.dtype = DType::bf16, .queries = 150, .keys = 150, .heads = 2, .kv_heads = 1, .head_dim = 256, .causal = true, .mma_body = true});
  if (sm() <= 90) expect_attention({.dtype = DType::f16, .queries = 70, .keys = 190, .heads = 2, .kv_heads = 1, .head_dim = 256, .turing_body = true});
}

TEST_F(AttentionCuda, refuses_a_head_that_no_kernel_holds) {
  const Tensor x(DType::f32, {2, 2048}, gpu().device), y(DType::f32, {2, 2048}, gpu().device);
  ExecContext ctx = gpu_context();
  EXPECT_THROW(attention(ctx, x, x, x, {.heads = 1, .kv_heads = 1, .softmax_scale = 1}, y.view()), Unsupported);
}

// ------------------------------------------------------------------------------------------------ attention_int8

class AttentionInt8Cuda : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && !HasFatalFailure() && sm() < 80) OCTAVO_SKIP_GPU_TEST("sm_80 or later, found sm_" + std::to_string(sm()));
  }

  static AttentionCodes on_cpu(const AttentionCodes& like, std::vector<Tensor>& owned) {
    const auto twin = [&](const TensorView& view) { return owned.emplace_back(view.dtype, view.shape).view(); };
    return {.q = twin(like.q), .k = twin(like.k), .q_scale = twin(like.q_scale), .k_scale = twin(like.k_scale), .v = twin(like.v), .v_unit = twin(like.v_unit)};
  }

  void expect_same_codes(const AttentionCodes& gpu_codes, const AttentionCodes& want, const std::string& what) {
    const auto same = [&](const TensorView& a, const TensorView& b, const char* name) {
      const Tensor got = to_cpu(a);
      EXPECT_EQ(std::memcmp(got.as<void>(), b.data, b.bytes()), 0) << what << ": " << name;
    };
    same(gpu_codes.q, want.q, "q"), same(gpu_codes.q_scale, want.q_scale, "q_scale");
    same(gpu_codes.k, want.k, "k"), same(gpu_codes.k_scale, want.k_scale, "k_scale");
    same(gpu_codes.v, want.v, "v"), same(gpu_codes.v_unit, want.v_unit, "v_unit");
  }

  // Codes equal to the definition's bit for bit; then both products from these codes.
  void expect_int8(const AttentionCase& c, float magnitude = 1) {
    const std::string what = fmt::format("{} {} queries, {} keys, {} of {} heads, D {}", name_of(c.dtype), c.queries, c.keys, c.heads, c.kv_heads, c.head_dim);
    const std::int64_t q_columns = std::int64_t(c.heads) * c.head_dim, kv_columns = std::int64_t(c.kv_heads) * c.head_dim;
    const Tensor fused = gaussian(random(), c.dtype, {std::max(c.queries, c.keys), q_columns + 2 * kv_columns}, magnitude);
    const auto part = [](const TensorView& all, std::int64_t first, std::int64_t count, std::int64_t m) {
      return all.column_range(first, count).row_range(0, m);
    };
    const auto q_of = [&](const TensorView& all) { return part(all, 0, q_columns, c.queries); };
    const auto k_of = [&](const TensorView& all) { return part(all, q_columns, kv_columns, c.keys); };
    const auto v_of = [&](const TensorView& all) { return part(all, q_columns + kv_columns, kv_columns, c.keys); };
    const AttentionArgs args{.heads = c.heads, .kv_heads = c.kv_heads, .softmax_scale = 1.0f / std::sqrt(float(c.head_dim)) / (magnitude * magnitude)};

    const Tensor gpu_fused = to_gpu(fused);
    ExecContext ctx = gpu_context();
    const ArenaScope scope(*ctx.scratch);
    const AttentionCodes gpu_codes = scratch_codes(ctx, q_of(gpu_fused), k_of(gpu_fused), args);
    attention_codes_cuda(ctx, q_of(gpu_fused), k_of(gpu_fused), v_of(gpu_fused), args, gpu_codes);
    std::vector<Tensor> owned;
    owned.reserve(6);
    const AttentionCodes codes = on_cpu(gpu_codes, owned);
    attention_codes_cpu(q_of(fused), k_of(fused), v_of(fused), args, codes);
    expect_same_codes(gpu_codes, codes, what);
    if (HasFailure()) return;

    const Tensor y(c.dtype, {c.queries, q_columns}, gpu().device, "y");
    attention_int8(ctx, q_of(gpu_fused), k_of(gpu_fused), v_of(gpu_fused), args, y.view());
    ThreadPool pool;
    const Tensor want(DType::f32, {c.queries, q_columns}), weight(DType::f32, {c.queries, q_columns});
    attention_product_cpu(pool, codes, args, want.view());
    for (std::int64_t i = 0; i < c.keys * kv_columns; ++i) codes.v.as<f16>()[i].bits &= 0x7fff;
    attention_product_cpu(pool, codes, args, weight.view());  // Σ p |v|
    // Both round p to float16: against another maximum, so 2 · 2^-11, and 2^-25 each of a weight below 2^-14. A tile's sum passes four products, each of which
    // may round twice, to nearest or towards zero: 8 · 2^-10 of Σ p|v|, and 2^-24 where it is below 2^-14. Values are below 512 / unit; Σ p is at least 1.
    const double relative = 2 * 0x1p-11 + 8 * 0x1p-10 + 0x1p-24 * (64.0 * 16 + 4.0 * double(c.keys));
    expect_within(
        to_cpu(y), want,
        [&](std::int64_t i) {
          const double unit = double(codes.v_unit.as<float>()[i % q_columns / c.head_dim / (c.heads / c.kv_heads)]);
          const double small = double(c.keys) * 0x1p-24 * 512 + double(c.keys + 63) / 64 * 8 * 0x1p-24;
          return relative * double(weight.as<float>()[i]) + small / unit;
        },
        what);
  }
};

TEST_F(AttentionInt8Cuda, every_head_size_and_tail) {
  for (const int head_dim : {64, 128, 256}) {
    for (const std::int64_t rows : {1, 16, 63, 64, 65, 127, 129, 200})
      expect_int8({.dtype = DType::bf16, .queries = rows, .keys = rows, .heads = 3, .kv_heads = 3, .head_dim = head_dim});
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      expect_int8({.dtype = dtype, .queries = 130, .keys = 161, .heads = 4, .kv_heads = 2, .head_dim = head_dim});
      expect_int8({.dtype = dtype, .queries = 100, .keys = 333, .heads = 2, .kv_heads = 2, .head_dim = head_dim});
    }
  }
}

TEST_F(AttentionInt8Cuda, the_sequence_of_the_model) {
  expect_int8({.dtype = DType::bf16, .queries = 300, .keys = 4352, .heads = 2, .kv_heads = 2, .head_dim = 256});
}

TEST_F(AttentionInt8Cuda, numbers_beyond_float16) {
  expect_int8({.dtype = DType::bf16, .queries = 65, .keys = 130, .heads = 1, .kv_heads = 1, .head_dim = 256}, 0x1p20f);
  expect_int8({.dtype = DType::f32, .queries = 65, .keys = 130, .heads = 1, .kv_heads = 1, .head_dim = 64}, 0x1p-20f);
}

// A row depends on its own query alone: the same bits among other queries.
TEST_F(AttentionInt8Cuda, a_row_does_not_depend_on_the_other_queries) {
  for (const int head_dim : {64, 128, 256}) {
    const Tensor q = to_gpu(gaussian(random(), DType::bf16, {200, head_dim})), k = to_gpu(gaussian(random(), DType::bf16, {300, head_dim}));
    const AttentionArgs args{.heads = 1, .kv_heads = 1, .softmax_scale = 0.125f};
    ExecContext ctx = gpu_context();
    const Tensor all(DType::bf16, {200, head_dim}, gpu().device), some(DType::bf16, {7, head_dim}, gpu().device);
    attention_int8(ctx, q, k, k, args, all.view());
    attention_int8(ctx, q.view().row_range(100, 7), k, k, args, some.view());
    const Tensor a = to_cpu(all), b = to_cpu(some);
    EXPECT_EQ(std::memcmp(a.view().row_bytes(100), b.view().data, b.bytes()), 0) << "D " << head_dim;
  }
}

TEST_F(AttentionInt8Cuda, a_nan_stays_in_its_row_and_a_zero_row_is_the_mean) {
  const Tensor q = gaussian(random(), DType::bf16, {70, 128}), k = to_gpu(gaussian(random(), DType::bf16, {90, 128}));
  const Tensor ones(DType::bf16, {90, 128});
  for (std::int64_t i = 0; i < 90 * 128; ++i) ones.as<bf16>()[i] = to_bf16(1.0f);
  q.as<bf16>()[5 * 128 + 3] = to_bf16(std::nanf(""));
  for (int d = 0; d < 128; ++d) q.as<bf16>()[6 * 128 + d] = to_bf16(0.0f);
  const Tensor gpu_q = to_gpu(q), v = to_gpu(ones), y(DType::bf16, {70, 128}, gpu().device);
  ExecContext ctx = gpu_context();
  attention_int8(ctx, gpu_q, k, v, {.heads = 1, .kv_heads = 1, .softmax_scale = 0.1f}, y.view());
  const Tensor got = to_cpu(y);
  for (std::int64_t m = 0; m < 70; ++m) EXPECT_EQ(std::isnan(element(got, m * 128)), m == 5) << m;
  EXPECT_NEAR(element(got, 6 * 128), 1.0f, 0x1p-7f);  // Σ p · 1 / Σ p: float16 weights, their sums and the bf16 store
}

TEST_F(AttentionInt8Cuda, what_has_no_body_is_refused) {
  ExecContext ctx = gpu_context();
  const auto try_size = [&](int head_dim, bool causal) {
    const Tensor x(DType::bf16, {4, head_dim}, gpu().device), y(DType::bf16, {4, head_dim}, gpu().device);
    attention_int8(ctx, x, x, x, {.heads = 1, .kv_heads = 1, .softmax_scale = 1, .causal = causal}, y.view());
  };
  EXPECT_THROW(try_size(96, false), Unsupported);
  EXPECT_THROW(try_size(512, false), Unsupported);
  EXPECT_THROW(try_size(64, true), Unsupported);
}

TEST_F(AttentionInt8Cuda, sanitize_every_kernel) {
  for (const int head_dim : {64, 128, 256}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      expect_int8({.dtype = dtype, .queries = 70, .keys = 190, .heads = 2, .kv_heads = 1, .head_dim = head_dim});
  }
}

}  // namespace
}  // namespace octavo
