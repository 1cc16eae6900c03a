// What linear reaches on this CPU: f32 beside a bare cblas_sgemm of the same shape and thread count in the same run, and every W8A8 member.
//   cpu_linear [threads] [rounds]
// Rounds are interleaved; a row shows the median of each. Shares are ratios of medians of the same run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "bench_clock.h"
#include "cpu/isa.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_backend.h"

#ifdef OCTAVO_BENCH_OPENBLAS
#include <cblas.h>
#endif

namespace octavo {
namespace {

struct Runner {
  std::string name;
  std::function<void()> call;
  std::vector<double> seconds{};

  double median() {
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }
};

Tensor random_floats(DType dtype, Shape shape, std::mt19937& engine) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (float& value : values) value = normal(engine);
  Tensor tensor(dtype, shape);
  store_from_float(values.data(), std::int64_t(values.size()), dtype, tensor.as<void>());
  return tensor;
}

void bench(std::int64_t m, std::int64_t n, std::int64_t k, ThreadPool& pool, int rounds) {
  std::mt19937 engine(1);
  Arena scratch{Device{}};
  ExecContext ctx{.pool = &pool, .scratch = &scratch};
  const Tensor x = random_floats(DType::f32, {m, k}, engine);
  const Tensor w32 = random_floats(DType::f32, {n, k}, engine);
  const Tensor w16 = random_floats(DType::bf16, {n, k}, engine);
  const Tensor y(DType::f32, {m, n});
  const Tensor x_q(DType::s8, {m, k}), w_q(DType::s8, {n, k}), x_scale(DType::f32, {m}), w_scale(DType::f32, {n});
  for (std::int64_t row = 0; row < m; ++row) x_scale.as<float>()[row] = quantize_row(x.as<float>() + row * k, k, x_q.as<std::int8_t>() + row * k);
  for (std::int64_t row = 0; row < n; ++row) w_scale.as<float>()[row] = quantize_weight_row(w32.as<float>() + row * k, k, w_q.as<std::int8_t>() + row * k);
  const LinearWeights float_weight{.weight = w32}, bf16_weight{.weight = w16}, quantised{.weight = w_q, .scale = w_scale};
  const QuantizedView codes{.q = x_q, .scale = x_scale};

  std::vector<Runner> runners;
#ifdef OCTAVO_BENCH_OPENBLAS
  runners.push_back({"sgemm", [&] {
                       cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(m), int(n), int(k), 1.0f, x.as<float>(), int(k), w32.as<float>(), int(k), 0.0f,
                                   y.as<float>(), int(n));
                     }});
#endif
  runners.push_back({"f32", [&] { linear(ctx, x, float_weight, {}, y); }});
  runners.push_back({"f32, bf16 weight", [&] { linear(ctx, x, bf16_weight, {}, y); }});
  for (const cpu::Isa isa : {cpu::Isa::avx2, cpu::Isa::vnni, cpu::Isa::amx}) {
    if (isa > cpu::best_isa()) continue;
    runners.push_back({fmt::format("w8a8 {}", name_of(isa)), [&, isa] { linear_cpu_fast(ctx, codes, quantised, {}, y, isa); }});
  }
  if (cpu::best_isa() > cpu::Isa::avx2) runners.push_back({"f32 avx2", [&] { linear_cpu_fast(ctx, x, float_weight, {}, y, cpu::Isa::avx2); }});
  for (int round = -1; round < rounds; ++round) {  // the first round warms up
    for (Runner& runner : runners) {
      const double start = bench_seconds();
      runner.call();
      if (round >= 0) runner.seconds.push_back(bench_seconds() - start);
    }
  }
  const double operations = 2.0 * double(m) * double(n) * double(k);
  double f32_rate = 0, sgemm_rate = 0;
  for (Runner& runner : runners) {
    const double rate = operations / runner.median() * 1e-9;
    if (runner.name == "sgemm") sgemm_rate = rate;
    if (runner.name == "f32") f32_rate = rate;
    fmt::print("{:>5}×{:<5}×{:<5} {:<18} {:9.0f} µs {:8.1f} GOP/s", m, n, k, runner.name, runner.median() * 1e6, rate);
    if (sgemm_rate > 0 && runner.name != "sgemm") fmt::print("  {:5.0f} % of sgemm", 100 * rate / sgemm_rate);
    if (f32_rate > 0 && runner.name.starts_with("w8a8")) fmt::print("  {:5.2f} × f32", rate / f32_rate);
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0;
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 9;
  octavo::ThreadPool pool(threads);
  octavo::bench_by_cpu_time(pool.size() == 1);
#ifdef OCTAVO_BENCH_OPENBLAS
  openblas_set_num_threads(pool.size());
  fmt::print("sgemm: {}\n", openblas_get_config());
#else
  fmt::print("sgemm: not in this build (no OpenBLAS found)\n");
#endif
  fmt::print("{} threads, {} rounds, {} time, best step of this processor: {}\n", pool.size(), rounds, pool.size() == 1 ? "processor" : "wall",
             octavo::cpu::name_of(octavo::cpu::best_isa()));
  const std::pair<std::int64_t, std::int64_t> layers[] = {{1024, 1024}, {3072, 1024}, {1024, 4096}, {3072, 3072}, {4096, 4096}};
  for (const std::int64_t m : {24, 256, 1024}) {
    for (const auto& [n, k] : layers) octavo::bench(m, n, k, pool, rounds);
  }
}
