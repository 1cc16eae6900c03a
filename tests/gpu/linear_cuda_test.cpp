// Every W8A8 kernel of the catalogue against plain sums: int32 equal, stored floats equal bit for bit (numerics.md sections 4, 5),
// nothing written outside y. Shapes are the ones where tiles, slices, 16-byte copies and 32-bit counters end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gpu/gpu_test.h"
#include "gpu/linear_reference.h"
#include "octavo/error.h"
#include "ops/linear/catalog.h"
#include "ops/linear/choose.h"
#include "ops/linear/linear.h"

namespace octavo {
namespace {

using testing::count_wrong;
using testing::fill_codes;
using testing::fill_floats;
using testing::fill_halves;
using testing::poison;
using testing::reference_sums;

constexpr std::int64_t kRowsTried[] = {0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 100, 127, 129, 2304, 4096, 4352, 4608};
constexpr std::int64_t kColumnsTried[] = {1, 8, 17, 24, 33, 128, 4608, 13824};
constexpr std::int64_t kDepthsTried[] = {8, 16, 24, 40, 64, 100, 128, 840, 2520, 4608, 12288, 53248};
constexpr std::int64_t kMostRows = 4608;
constexpr std::int64_t kGuardRows = 2;
// exp(-|v|) within (2 + 1.2 |v|) ulp and a quotient within 2: under one step of 8 or 11 bits; as float32, |v| <= 40 gives 2 + 48 + 2 + 4 products.
constexpr int kSiluSteps16 = 1;
constexpr int kSiluSteps32 = 56;

std::int64_t padded(std::int64_t columns, int to) { return (columns + to - 1) / to * to; }

class LinearCuda : public testing::GpuTest {
 protected:
  void* stream() { return gpu().stream.handle(); }

  template <class T>
  T* memory(std::int64_t count) {
    buffers_.emplace_back(std::size_t(std::max<std::int64_t>(count, 1)) * sizeof(T), gpu().device, "test memory");
    return static_cast<T*>(buffers_.back().data());
  }
  std::int8_t* codes(std::int64_t count) {
    auto* to = memory<std::int8_t>(count);
    fill_codes(to, count, random()(), stream());
    return to;
  }
  float* floats(std::int64_t count, float low, float high) {
    auto* to = memory<float>(count);
    fill_floats(to, count, low, high, random()(), stream());
    return to;
  }
  void forget() {
    gpu().stream.synchronize();
    buffers_.clear();
  }

  void run(const GemmKernel& kernel, const GemmProblem& problem) {
    const ArenaScope scope(gpu().scratch);
    const std::int64_t bytes = kernel.workspace_bytes + (kernel.workspace_for != nullptr ? kernel.workspace_for(problem) : 0);
    void* workspace = bytes > 0 ? gpu().scratch.take(std::size_t(bytes), "workspace") : nullptr;
    if (bytes > 0) poison(workspace, bytes, stream());
    GemmLaunch how = default_launch(kernel, problem, gpu().caps);
    how.raster_group = 1 + int(random()() % 11);  // may not matter
    kernel.launch(problem, how, workspace, stream());
  }

  // Poisons y, runs, and expects every element of every group right and nothing else touched.
  void expect_exact(const GemmKernel& kernel, const GemmProblem& problem, const std::vector<const std::int32_t*>& acc, int silu_steps = 0) {
    const std::int64_t element = std::int64_t(bytes_of(problem.out));
    for (int g = 0; g < problem.groups; ++g) {
      if (problem.group[g].residual == problem.group[g].y) continue;  // in place: y is an input
      poison(problem.group[g].y, (problem.group[g].m + kGuardRows) * problem.group[g].y_stride * element, stream());
    }
    ASSERT_NO_THROW(run(kernel, problem)) << kernel.id;
    for (int g = 0; g < problem.groups; ++g) {
      const std::int64_t wrong = count_wrong(problem, g, acc[std::size_t(g)], problem.n, kGuardRows, silu_steps, stream());
      EXPECT_EQ(wrong, 0) << kernel.id << " group " << g << " M " << problem.group[g].m << " N " << problem.n << " K " << problem.k << " out "
                          << name_of(problem.out) << " epilogue " << int(problem.epilogue);
    }
  }

  // Sampled rows of `acc` against the CPU: the fast body, and the plain one where that is affordable.
  void check_reference_on_cpu(const std::int8_t* x, std::int64_t x_stride, const std::int8_t* w, const std::int32_t* acc, std::int64_t m, std::int64_t n,
                              std::int64_t k) {
    if (m == 0) return;
    Tensor w_host = to_cpu(TensorView(const_cast<std::int8_t*>(w), DType::s8, {n, k}, gpu().device));
    for (const std::int64_t row : {std::int64_t(0), m / 2, m - 1}) {
      const Tensor x_row = to_cpu(TensorView(const_cast<std::int8_t*>(x) + row * x_stride, DType::s8, {1, k}, gpu().device));
      const Tensor acc_row = to_cpu(TensorView(const_cast<std::int32_t*>(acc) + row * n, DType::s32, {1, n}, gpu().device));
      for (const bool plain : {false, true}) {
        if (plain && n * k > 4'000'000) continue;
        ExecContext ctx = cpu_context();
        ctx.reference = plain;
        Tensor expected(DType::s32, {1, n});
        linear_accumulate(ctx, x_row, w_host, expected);
        EXPECT_EQ(std::memcmp(expected.as<std::int32_t>(), acc_row.as<std::int32_t>(), expected.bytes()), 0)
            << "the reference itself: row " << row << " N " << n << " K " << k;
      }
    }
  }

  std::vector<Buffer> buffers_{};
};

bool runs_here(const GemmKernel& kernel, const DeviceCaps& caps) {
  return caps.sm >= kernel.arch.min_sm && caps.sm <= kernel.arch.max_sm && kernel.shared_bytes <= caps.shared_per_block_bytes;
}

TEST_F(LinearCuda, every_kernel_equals_plain_sums_on_every_tail) {
  for (const std::int64_t k : kDepthsTried) {
    for (const std::int64_t n : kColumnsTried) {
      const auto* x = codes(kMostRows * k);
      const auto* w = codes(n * k);
      auto* acc = memory<std::int32_t>(kMostRows * n);
      reference_sums(x, k, w, k, acc, kMostRows, n, k, stream());
      check_reference_on_cpu(x, k, w, acc, kMostRows, n, k);
      const float* x_scale = floats(kMostRows, 0.5e-3f, 1.5e-3f);
      const float* w_scale = floats(n, 0.5e-3f, 1.5e-3f);
      const float* bias = floats(n, -1, 1);
      auto* y = memory<std::uint32_t>((kMostRows + kGuardRows) * padded(n, 8));
      for (const std::int64_t m : kRowsTried) {
        GemmProblem problem{.n = n, .k = k};
        problem.group[0] = {.x = x, .x_stride = k, .x_scale = x_scale, .w = w, .w_stride = k, .w_scale = w_scale, .y = y, .m = m};
        for (const GemmKernel& kernel : gemm_catalog()) {
          if (!runs_here(kernel, gpu().caps)) continue;
          problem.out = DType::s32;
          problem.group[0].bias = nullptr;
          problem.group[0].y_stride = n;
          if (kernel.accepts(problem)) expect_exact(kernel, problem, {acc});
          problem.out = DType::bf16;
          problem.group[0].bias = m % 2 == 0 ? bias : nullptr;
          problem.group[0].y_stride = m % 3 == 0 ? padded(n, 8) : n;
          if (kernel.accepts(problem)) expect_exact(kernel, problem, {acc});
        }
        if (HasFatalFailure()) return;
      }
      forget();
    }
  }
}

TEST_F(LinearCuda, every_output_type_and_epilogue) {
  struct Shape {
    std::int64_t m, n, k;
  };
  for (const Shape s : {Shape{129, 264, 256}, Shape{33, 24, 64}, Shape{300, 1000, 1536}, Shape{17, 38, 48}, Shape{5, 512, 4608}}) {
    const auto* x = codes(s.m * s.k);
    const auto* w = codes(s.n * s.k);
    auto* acc = memory<std::int32_t>(s.m * s.n);
    reference_sums(x, s.k, w, s.k, acc, s.m, s.n, s.k, stream());
    const float* x_scale = floats(s.m, 0.5e-3f, 1.5e-3f);
    const float* w_scale = floats(s.n, 0.5e-3f, 1.5e-3f);
    const float* bias = floats(s.n, -1, 1);
    const float* mod_gate = floats(s.n, -2, 2);
    auto* residual16 = memory<std::uint16_t>(s.m * s.n);
    const float* residual32 = floats(s.m * s.n, -2, 2);
    auto* y = memory<std::uint32_t>((s.m + kGuardRows) * padded(s.n, 8));
    for (const DType out : {DType::bf16, DType::f16, DType::f32}) {
      if (out != DType::f32) fill_halves(residual16, s.m * s.n, out, random()(), stream());
      for (const GemmEpilogue epilogue : {GemmEpilogue::plain, GemmEpilogue::gated_residual, GemmEpilogue::silu_mul, GemmEpilogue::silu}) {
        for (const int variant : {0, 1, 2}) {
          const std::int64_t columns = epilogue == GemmEpilogue::silu_mul ? s.n / 2 : s.n;
          GemmProblem problem{.n = s.n, .k = s.k, .out = out, .epilogue = epilogue};
          GemmOperands& g = problem.group[0];
          g = {.x = x, .x_stride = s.k, .x_scale = x_scale, .w = w, .w_stride = s.k, .w_scale = w_scale, .y = y, .m = s.m};
          g.bias = variant == 1 ? nullptr : bias;
          g.y_stride = variant == 0 ? padded(columns, 8) : columns;
          if (epilogue == GemmEpilogue::gated_residual) {
            if (variant != 1) g.mod_gate = mod_gate;
            if (variant != 2) g.residual = out == DType::f32 ? static_cast<const void*>(residual32) : residual16;
            g.residual_stride = s.n;
          }
          for (const GemmKernel& kernel : gemm_catalog()) {
            if (runs_here(kernel, gpu().caps) && kernel.accepts(problem)) expect_exact(kernel, problem, {acc}, out == DType::f32 ? kSiluSteps32 : kSiluSteps16);
          }
        }
      }
    }
    forget();
  }
}

TEST_F(LinearCuda, silu_mul_has_the_same_bits_from_every_kernel) {
  constexpr std::int64_t m = 70, n = 512, k = 1024;
  const auto* x = codes(m * k);
  const auto* w = codes(n * k);
  const float* x_scale = floats(m, 0.5e-3f, 1.5e-2f);
  const float* w_scale = floats(n, 0.5e-3f, 1.5e-3f);
  for (const DType out : {DType::bf16, DType::f16, DType::f32}) {
    std::vector<std::byte> first;
    for (const GemmKernel& kernel : gemm_catalog()) {
      Tensor y(out, {m, n / 2}, gpu().device);
      GemmProblem problem{.n = n, .k = k, .out = out, .epilogue = GemmEpilogue::silu_mul};
      problem.group[0] = {.x = x, .x_stride = k, .x_scale = x_scale, .w = w, .w_stride = k, .w_scale = w_scale, .y = y.view().data, .y_stride = n / 2, .m = m};
      if (!runs_here(kernel, gpu().caps) || !kernel.accepts(problem)) continue;
      run(kernel, problem);
      const Tensor host = to_cpu(y);
      const std::vector<std::byte> bytes(host.as<std::byte>(), host.as<std::byte>() + host.bytes());
      if (first.empty()) first = bytes;
      EXPECT_TRUE(bytes == first) << kernel.id << " " << name_of(out);
    }
  }
}

TEST_F(LinearCuda, strided_rows_leave_the_gaps_alone) {
  constexpr std::int64_t m = 131, n = 200, k = 320;
  const std::int64_t x_stride = k + 48;
  const std::int64_t w_stride = k + 16;
  const auto* x = codes(m * x_stride);
  const auto* w = codes(n * w_stride);
  auto* acc = memory<std::int32_t>(m * n);
  reference_sums(x, x_stride, w, w_stride, acc, m, n, k, stream());
  const float* x_scale = floats(m, 0.5e-3f, 1.5e-3f);
  const float* w_scale = floats(n, 0.5e-3f, 1.5e-3f);
  auto* y = memory<std::uint32_t>((m + kGuardRows) * (n + 64));
  for (const std::int64_t gap : {0, 3, 8, 40}) {
    for (const DType out : {DType::bf16, DType::f32, DType::s32}) {
      GemmProblem problem{.n = n, .k = k, .out = out};
      problem.group[0] = {
          .x = x, .x_stride = x_stride, .x_scale = x_scale, .w = w, .w_stride = w_stride, .w_scale = w_scale, .y = y, .y_stride = n + gap, .m = m};
      for (const GemmKernel& kernel : gemm_catalog()) {
        if (runs_here(kernel, gpu().caps) && kernel.accepts(problem)) expect_exact(kernel, problem, {acc});
      }
    }
  }
}

TEST_F(LinearCuda, misaligned_views_run_the_generic_kernel) {
  constexpr std::int64_t m = 37, n = 50, k = 160;
  const auto* x = codes(m * (k + 5) + 16);
  const auto* w = codes(n * (k + 7) + 16);
  auto* acc = memory<std::int32_t>(m * n);
  const float* x_scale = floats(m, 0.5e-3f, 1.5e-3f);
  const float* w_scale = floats(n, 0.5e-3f, 1.5e-3f);
  auto* y = memory<std::uint32_t>((m + kGuardRows) * n);
  for (const std::int64_t x_shift : {0, 1, 8}) {
    for (const std::int64_t w_stride : {k, k + 7}) {
      reference_sums(x + x_shift, k + 5, w, w_stride, acc, m, n, k, stream());
      GemmProblem problem{.n = n, .k = k, .out = DType::bf16};
      problem.group[0] = {
          .x = x + x_shift, .x_stride = k + 5, .x_scale = x_scale, .w = w, .w_stride = w_stride, .w_scale = w_scale, .y = y, .y_stride = n, .m = m};
      const GemmKernel* kernel = chosen(problem, gpu().caps);
      ASSERT_NE(kernel, nullptr);
      EXPECT_EQ(kernel->family, "generic") << kernel->id;
      expect_exact(*kernel, problem, {acc});
    }
  }
}

TEST_F(LinearCuda, two_problems_in_one_launch) {
  struct Pair {
    std::int64_t m0, m1, n, k;
  };
  for (const Pair p :
       {Pair{4096, 4608, 4608, 512}, Pair{1, 129, 264, 256}, Pair{0, 33, 128, 64}, Pair{33, 0, 128, 64}, Pair{16, 16, 1000, 4608}, Pair{70, 250, 512, 128}}) {
    GemmProblem problem{.n = p.n, .k = p.k, .groups = 2};
    std::vector<const std::int32_t*> sums;
    for (int g = 0; g < 2; ++g) {
      const std::int64_t m = g == 0 ? p.m0 : p.m1;
      GemmOperands& op = problem.group[g];
      op = {.x = codes(m * p.k),
            .x_stride = p.k,
            .x_scale = floats(m, 0.5e-3f, 1.5e-3f),
            .w = codes(p.n * p.k),
            .w_stride = p.k,
            .w_scale = floats(p.n, 0.5e-3f, 1.5e-3f)};
      op.bias = g == 0 ? floats(p.n, -1, 1) : nullptr;
      op.m = m;
      op.y_stride = p.n + 8 * g;
      op.y = memory<std::uint32_t>((m + kGuardRows) * op.y_stride);
      auto* acc = memory<std::int32_t>(m * p.n);
      reference_sums(op.x, p.k, op.w, p.k, acc, m, p.n, p.k, stream());
      sums.push_back(acc);
    }
    for (const DType out : {DType::bf16, DType::s32}) {
      problem.out = out;
      for (const GemmKernel& kernel : gemm_catalog()) {
        if (runs_here(kernel, gpu().caps) && kernel.accepts(problem)) expect_exact(kernel, problem, sums);
      }
    }
    forget();
  }
}

TEST_F(LinearCuda, zero_nan_and_infinite_rows_stay_in_their_rows) {
  constexpr std::int64_t m = 40, n = 96, k = 256;
  Tensor x_host = Tensor::zeros(DType::s8, {m, k});
  for (std::int64_t i = 0; i < m * k; ++i) x_host.as<std::int8_t>()[i] = std::int8_t(int(random()() % 255) - 127);
  std::fill_n(x_host.as<std::int8_t>() + 3 * k, k, std::int8_t(0));
  std::vector<float> scales(m, 1e-3f);
  scales[3] = 0;                                        // a zero row
  scales[7] = std::numeric_limits<float>::quiet_NaN();  // a row that held NaN
  scales[21] = std::numeric_limits<float>::infinity();  // never written by our quantiser; must not spread either
  scales[22] = 1e-42f;                                  // a subnormal scale
  const Tensor x = to_gpu(x_host);
  const Tensor x_scale = to_gpu(TensorView(scales.data(), DType::f32, {m}));
  const auto* w = codes(n * k);
  const float* w_scale = floats(n, 0.5f, 1.5f);
  auto* acc = memory<std::int32_t>(m * n);
  reference_sums(x.as<std::int8_t>(), k, w, k, acc, m, n, k, stream());
  auto* y = memory<std::uint32_t>((m + kGuardRows) * n);
  for (const DType out : {DType::bf16, DType::f16, DType::f32}) {
    GemmProblem problem{.n = n, .k = k, .out = out};
    problem.group[0] = {
        .x = x.as<std::int8_t>(), .x_stride = k, .x_scale = x_scale.as<float>(), .w = w, .w_stride = k, .w_scale = w_scale, .y = y, .y_stride = n, .m = m};
    for (const GemmKernel& kernel : gemm_catalog()) {
      if (!runs_here(kernel, gpu().caps) || !kernel.accepts(problem)) continue;
      expect_exact(kernel, problem, {acc});
      if (out != DType::f32) continue;
      const Tensor host = to_cpu(TensorView(y, DType::f32, {m, n}, gpu().device));
      for (std::int64_t i = 0; i < m * n; ++i) {
        const std::int64_t row = i / n;
        const float v = host.as<float>()[i];
        if (row == 7) {
          EXPECT_TRUE(std::isnan(v)) << kernel.id;
        } else if (row == 3) {
          EXPECT_EQ(v, 0.0f) << kernel.id;
        } else if (row != 21) {
          EXPECT_TRUE(std::isfinite(v)) << kernel.id << " row " << row;
        }
      }
    }
  }
}

TEST_F(LinearCuda, residual_in_place) {
  constexpr std::int64_t m = 150, n = 264, k = 128;
  const auto* x = codes(m * k);
  const auto* w = codes(n * k);
  auto* acc = memory<std::int32_t>(m * n);
  reference_sums(x, k, w, k, acc, m, n, k, stream());
  const float* x_scale = floats(m, 0.5e-3f, 1.5e-3f);
  const float* w_scale = floats(n, 0.5e-3f, 1.5e-3f);
  const float* mod_gate = floats(n, -2, 2);
  auto* before = memory<std::uint16_t>(m * n);
  auto* y = memory<std::uint16_t>((m + kGuardRows) * n);
  fill_halves(before, m * n, DType::bf16, random()(), stream());
  for (const GemmKernel& kernel : gemm_catalog()) {
    GemmProblem problem{.n = n, .k = k, .out = DType::bf16, .epilogue = GemmEpilogue::gated_residual};
    GemmOperands& g = problem.group[0];
    g = {.x = x, .x_stride = k, .x_scale = x_scale, .w = w, .w_stride = k, .w_scale = w_scale, .mod_gate = mod_gate, .y = y, .y_stride = n, .m = m};
    g.residual = y;
    g.residual_stride = n;
    if (!runs_here(kernel, gpu().caps) || !kernel.accepts(problem)) continue;
    poison(y, (m + kGuardRows) * n * 2, stream());
    copy_bytes(y, gpu().device, before, gpu().device, std::size_t(m * n * 2), &gpu().stream);
    run(kernel, problem);
    GemmProblem as_judged = problem;
    as_judged.group[0].residual = before;
    EXPECT_EQ(count_wrong(as_judged, 0, acc, n, kGuardRows, 0, stream()), 0) << kernel.id;
  }
}

// M·N passes 2^31: the last rows tell whether an offset wrapped.
TEST_F(LinearCuda, more_than_two_to_the_31_results) {
  constexpr std::int64_t m = 100'000, n = 21'504, k = 64, tail = 64;
  if (gpu().caps.memory_bytes < std::int64_t(24) << 30) OCTAVO_SKIP_GPU_TEST("24 GiB of GPU memory");
  const auto* x = codes(m * k);
  const auto* w = codes(n * k);
  auto* acc = memory<std::int32_t>(tail * n);
  reference_sums(x + (m - tail) * k, k, w, k, acc, tail, n, k, stream());
  const float* x_scale = floats(m, 0.5e-3f, 1.5e-3f);
  const float* w_scale = floats(n, 0.5e-3f, 1.5e-3f);
  auto* y = memory<std::uint16_t>((m + kGuardRows) * n);
  GemmProblem problem{.n = n, .k = k, .out = DType::bf16};
  problem.group[0] = {.x = x, .x_stride = k, .x_scale = x_scale, .w = w, .w_stride = k, .w_scale = w_scale, .y = y, .y_stride = n, .m = m};
  GemmProblem last = problem;  // as the judge sees it: the last rows alone
  last.group[0].x_scale = x_scale + (m - tail);
  last.group[0].y = y + (m - tail) * n;
  last.group[0].m = tail;
  for (const GemmKernel& kernel : gemm_catalog()) {
    if (!runs_here(kernel, gpu().caps) || !kernel.accepts(problem)) continue;
    poison(y + (m - tail) * n, (tail + kGuardRows) * n * 2, stream());
    run(kernel, problem);
    EXPECT_EQ(count_wrong(last, 0, acc, n, kGuardRows, 0, stream()), 0) << kernel.id;
  }
}

// Small enough for compute-sanitizer (scripts/device_run.sh sanitize): every kernel, every epilogue path, tails in M, N and K, two problems.
TEST_F(LinearCuda, sanitize_every_kernel_on_small_tails) {
  struct Shape {
    std::int64_t m0, m1, n, k;
  };
  for (const Shape s : {Shape{130, 0, 264, 640}, Shape{17, 3, 24, 48}, Shape{1, 0, 70, 1024}}) {
    GemmProblem problem{.n = s.n, .k = s.k, .groups = s.m1 > 0 ? 2 : 1};
    std::vector<const std::int32_t*> sums;
    for (int g = 0; g < problem.groups; ++g) {
      const std::int64_t m = g == 0 ? s.m0 : s.m1;
      auto* acc = memory<std::int32_t>(m * s.n);
      GemmOperands& op = problem.group[g];
      op = {.x = codes(m * s.k),
            .x_stride = s.k,
            .x_scale = floats(m, 0.5e-3f, 1.5e-3f),
            .w = codes(s.n * s.k),
            .w_stride = s.k,
            .w_scale = floats(s.n, 0.5e-3f, 1.5e-3f)};
      op.bias = floats(s.n, -1, 1);
      op.y_stride = padded(s.n, 8);
      op.y = memory<std::uint32_t>((m + kGuardRows) * op.y_stride);
      op.m = m;
      reference_sums(op.x, s.k, op.w, s.k, acc, m, s.n, s.k, stream());
      sums.push_back(acc);
    }
    for (const auto& [out, epilogue] : {std::pair{DType::bf16, GemmEpilogue::plain},
                                        {DType::f16, GemmEpilogue::silu_mul},
                                        {DType::f32, GemmEpilogue::gated_residual},
                                        {DType::s32, GemmEpilogue::plain}}) {
      problem.out = out;
      problem.epilogue = epilogue;
      for (const GemmKernel& kernel : gemm_catalog()) {
        if (runs_here(kernel, gpu().caps) && kernel.accepts(problem)) expect_exact(kernel, problem, sums, kSiluSteps16);
      }
    }
    forget();
  }
}

TEST_F(LinearCuda, op_equals_the_cpu_body) {
  for (const DType out : {DType::f32, DType::bf16, DType::f16}) {
    constexpr std::int64_t m = 45, n = 168, k = 224;
    Tensor x_host(DType::s8, {m, k});
    Tensor w_host(DType::s8, {n, k});
    Tensor x_scale(DType::f32, {m});
    Tensor w_scale(DType::f32, {n});
    Tensor bias(DType::bf16, {n});
    for (std::int64_t i = 0; i < m * k; ++i) x_host.as<std::int8_t>()[i] = std::int8_t(int(random()() % 255) - 127);
    for (std::int64_t i = 0; i < n * k; ++i) w_host.as<std::int8_t>()[i] = std::int8_t(int(random()() % 255) - 127);
    for (std::int64_t i = 0; i < m; ++i) x_scale.as<float>()[i] = 1e-3f * float(1 + random()() % 100);
    for (std::int64_t i = 0; i < n; ++i) w_scale.as<float>()[i] = 1e-3f * float(1 + random()() % 100);
    for (std::int64_t i = 0; i < n; ++i) bias.as<bf16>()[i] = to_bf16(float(random()() % 1000) * 1e-2f - 5);
    Tensor on_cpu(out, {m, n});
    ExecContext cpu = cpu_context();
    cpu.reference = true;
    linear(cpu, QuantizedView{.q = x_host, .scale = x_scale}, LinearWeights{.name = "test", .weight = w_host, .scale = w_scale.view(), .bias = bias.view()}, {},
           on_cpu);

    const Tensor x_gpu = to_gpu(x_host), w_gpu = to_gpu(w_host), x_scale_gpu = to_gpu(x_scale), w_scale_gpu = to_gpu(w_scale), bias_gpu = to_gpu(bias);
    const Tensor y(out, {m, n}, gpu().device);
    ExecContext ctx = gpu_context();
    linear(ctx, QuantizedView{.q = x_gpu, .scale = x_scale_gpu},
           LinearWeights{.name = "test", .weight = w_gpu, .scale = w_scale_gpu.view(), .bias = bias_gpu.view()}, {}, y);
    EXPECT_EQ(std::memcmp(to_cpu(y).as<std::byte>(), on_cpu.as<std::byte>(), on_cpu.bytes()), 0) << name_of(out);
  }
}

// The CPU's definition and the kernels differ by their exponentials (some 2^-22 relative) and then by one rounding to the output type.
TEST_F(LinearCuda, silu_mul_op_is_the_cpu_body) {
  constexpr std::int64_t m = 45, n = 336, k = 224;
  Tensor x_host(DType::s8, {m, k}), w_host(DType::s8, {n, k}), x_scale(DType::f32, {m}), w_scale(DType::f32, {n});
  for (std::int64_t i = 0; i < m * k; ++i) x_host.as<std::int8_t>()[i] = std::int8_t(int(random()() % 255) - 127);
  for (std::int64_t i = 0; i < n * k; ++i) w_host.as<std::int8_t>()[i] = std::int8_t(int(random()() % 255) - 127);
  for (std::int64_t i = 0; i < m; ++i) x_scale.as<float>()[i] = 1e-4f * float(1 + random()() % 100);
  for (std::int64_t i = 0; i < n; ++i) w_scale.as<float>()[i] = 1e-3f * float(1 + random()() % 100);
  const Tensor x_gpu = to_gpu(x_host), w_gpu = to_gpu(w_host), x_scale_gpu = to_gpu(x_scale), w_scale_gpu = to_gpu(w_scale);
  for (const auto& [out, step] : {std::pair{DType::f32, 1e-6}, std::pair{DType::bf16, 1.0 / 128}, std::pair{DType::f16, 1.0 / 1024}}) {
    const Tensor on_cpu(DType::f32, {m, n / 2}), y(out, {m, n / 2}, gpu().device);
    ExecContext cpu = cpu_context(), ctx = gpu_context();
    cpu.reference = true;
    const Epilogue swiglu{.activation = Activation::silu_mul, .mod_gate = {}, .residual = {}};
    linear(cpu, QuantizedView{.q = x_host, .scale = x_scale}, LinearWeights{.name = "test", .weight = w_host, .scale = w_scale.view()}, swiglu, on_cpu);
    linear(ctx, QuantizedView{.q = x_gpu, .scale = x_scale_gpu}, LinearWeights{.name = "test", .weight = w_gpu, .scale = w_scale_gpu.view()}, swiglu, y);
    const Tensor got = to_float_tensor(to_cpu(y));
    for (std::int64_t i = 0; i < m * n / 2; ++i) {
      const double want = double(on_cpu.as<float>()[i]);
      ASSERT_NEAR(double(got.as<float>()[i]), want, step * std::abs(want) + 1e-7) << name_of(out) << " at " << i;
    }
  }
}

TEST_F(LinearCuda, refuses_what_cannot_be_right) {
  ExecContext ctx = gpu_context();
  const Tensor x(DType::s8, {4, 64}, gpu().device);
  const Tensor w(DType::s8, {8, 64}, gpu().device);
  const Tensor acc(DType::s32, {4, 8}, gpu().device);
  TensorView null_x = x;
  null_x.data = nullptr;
  EXPECT_THROW(linear_accumulate(ctx, null_x, w, acc), InvalidArgument);
  TensorView short_stride = x;
  short_stride.row_stride = 63;
  EXPECT_THROW(linear_accumulate(ctx, short_stride, w, acc), InvalidArgument);
  const Tensor deep_x(DType::s8, {1, kMaxExactK + 1}, gpu().device);
  const Tensor deep_w(DType::s8, {1, kMaxExactK + 1}, gpu().device);
  const Tensor deep_acc(DType::s32, {1, 1}, gpu().device);
  EXPECT_THROW(linear_accumulate(ctx, deep_x, deep_w, deep_acc), InvalidArgument);
}

}  // namespace
}  // namespace octavo
