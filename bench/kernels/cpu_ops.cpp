// What the other CPU ops reach: products in GOP/s, row ops in GB/s of what they read and write.
//   cpu_ops [threads] [rounds]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "bench_clock.h"
#include "cpu/isa.h"
#include "ops/attention/attention.h"
#include "ops/conv2d/conv2d.h"
#include "ops/gated_act/gated_act.h"
#include "ops/group_norm/group_norm.h"
#include "ops/norm_modulate/norm_modulate.h"
#include "ops/quantize/quantize_rows.h"
#include "ops/rope/rope.h"

namespace octavo {
namespace {

Tensor random_floats(DType dtype, Shape shape) {
  static std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (float& value : values) value = normal(engine);
  Tensor tensor(dtype, shape);
  store_from_float(values.data(), std::int64_t(values.size()), dtype, tensor.as<void>());
  return tensor;
}

// Prints the median of `rounds` calls and `amount` (operations or bytes) per second.
void report(int rounds, std::string_view name, double amount, std::string_view unit, const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int round = -1; round < rounds; ++round) {
    const double start = bench_seconds();
    call();
    if (round >= 0) seconds.push_back(bench_seconds() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  fmt::print("{:<52} {:9.0f} µs {:8.1f} {}\n", name, seconds[seconds.size() / 2] * 1e6, amount / seconds[seconds.size() / 2] * 1e-9, unit);
}

void bench_attention(ExecContext& ctx, int rounds, std::int64_t length, int heads, std::int64_t head_dim, bool causal) {
  const Tensor qkv = random_floats(DType::f32, {length, 3 * heads * head_dim});
  const Tensor y(DType::f32, {length, heads * head_dim});
  const auto part = [&](int i) { return qkv.view().column_range(i * heads * head_dim, heads * head_dim); };
  const AttentionArgs args{.heads = heads, .kv_heads = heads, .softmax_scale = 0.06f, .causal = causal};
  const double operations = 4.0 * double(length) * double(length) * double(heads) * double(head_dim) * (causal ? 0.5 : 1.0);
  report(rounds, fmt::format("attention {} × {} heads × {}{}", length, heads, head_dim, causal ? " causal" : ""), operations, "GOP/s",
         [&] { attention(ctx, part(0), part(1), part(2), args, y); });
}

void bench_conv(ExecContext& ctx, int rounds, std::int64_t size, std::int64_t in, std::int64_t out, int kernel) {
  const Tensor x = random_floats(DType::f32, {size, size, in});
  const Tensor weight = random_floats(DType::f32, {out, kernel, kernel, in});
  const Tensor y(DType::f32, {size, size, out});
  const int pad = kernel / 2;
  const ConvArgs args{.pad_top = pad, .pad_left = pad, .pad_bottom = pad, .pad_right = pad};
  report(rounds, fmt::format("conv2d {0}×{0} {1} to {2}, {3}×{3}", size, in, out, kernel), 2.0 * double(size * size * in * out * kernel * kernel), "GOP/s",
         [&] { conv2d(ctx, x, {.weight = weight}, args, std::nullopt, y); });
}

void bench_rows(ExecContext& ctx, int rounds, std::int64_t rows, std::int64_t columns) {
  const Tensor x = random_floats(DType::f32, {rows, columns}), b = random_floats(DType::f32, {rows, columns}), vector = random_floats(DType::f32, {columns});
  const Tensor y(DType::f32, {rows, columns}), q(DType::s8, {rows, columns}), scale(DType::f32, {rows});
  const QuantizedView codes{.q = q, .scale = scale}, rotated{.q = q, .scale = scale, .rotation_group = 256};
  const NormArgs norm{.weight = vector, .eps = 1e-6f, .mod_scale = vector};
  const double elements = double(rows * columns);
  const auto name = [&](std::string_view op) { return fmt::format("{} {}×{}", op, rows, columns); };
  report(rounds, name("quantize_rows"), 5 * elements, "GB/s", [&] { quantize_rows(ctx, x, codes); });
  report(rounds, name("quantize_rows, rotated by 256"), 5 * elements, "GB/s", [&] { quantize_rows(ctx, x, rotated); });
  report(rounds, name("rms_norm to f32"), 8 * elements, "GB/s", [&] { rms_norm(ctx, x, norm, y.view()); });
  report(rounds, name("rms_norm to s8"), 5 * elements, "GB/s", [&] { rms_norm(ctx, x, norm, codes); });
  report(rounds, name("gated_residual_norm to s8"), 13 * elements, "GB/s", [&] { gated_residual_norm(ctx, y, b, vector, norm, norm, RowOutput(codes)); });
  report(rounds, name("silu_mul to s8"), 9 * elements, "GB/s", [&] { silu_mul(ctx, x, b, codes); });
  const Tensor cos = random_floats(DType::f32, {rows, 128}), sin = random_floats(DType::f32, {rows, 128}), weight = random_floats(DType::f32, {256});
  report(rounds, name("head_norm_rope"), 8 * elements, "GB/s", [&] { head_norm_rope(ctx, y, int(columns / 256), weight, 1e-6f, cos, sin); });
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0;
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 9;
  octavo::ThreadPool pool(threads);
  octavo::bench_by_cpu_time(pool.size() == 1);
  octavo::Arena scratch{octavo::Device{}};
  octavo::ExecContext ctx{.pool = &pool, .scratch = &scratch};
  fmt::print("{} threads, {} rounds, {}, {} time\n", pool.size(), rounds, octavo::cpu::name_of(octavo::cpu::active_isa()),
             pool.size() == 1 ? "processor" : "wall");
  octavo::bench_attention(ctx, rounds, 300, 16, 64, false);
  octavo::bench_attention(ctx, rounds, 1024, 8, 128, false);
  octavo::bench_attention(ctx, rounds, 1024, 8, 128, true);
  octavo::bench_attention(ctx, rounds, 4352, 2, 256, false);
  octavo::bench_conv(ctx, rounds, 64, 512, 512, 3);
  octavo::bench_conv(ctx, rounds, 256, 128, 128, 3);
  octavo::bench_conv(ctx, rounds, 256, 128, 3, 3);
  octavo::bench_conv(ctx, rounds, 64, 512, 512, 1);
  octavo::bench_rows(ctx, rounds, 512, 4608);
  const octavo::Tensor map = octavo::random_floats(octavo::DType::f32, {256, 256, 128}), vector = octavo::random_floats(octavo::DType::f32, {128});
  const octavo::Tensor y(octavo::DType::f32, {256, 256, 128});
  octavo::report(rounds, "group_norm and silu 256×256×128", 256.0 * 256 * 128 * 16, "GB/s",
                 [&] { octavo::group_norm(ctx, map, {.weight = vector, .bias = vector, .groups = 32, .eps = 1e-6f, .silu = true}, y); });
}
