// Attention on a GPU beside its limit: 18 heads x 256 (the denoiser), 32 of 8 heads x 128 causal (the text encoder), one head x 512 (the autoencoder).
//   attention_bench [--rounds 20] > attention.jsonl
// One JSON line a shape and body: milliseconds (median, 10th and 90th percentile of single calls between CUDA events, inputs larger than L2 in turn),
// TFLOP/s by 4 · Lq · Lk · D · heads (half of it when causal). Random data. Body "int8" includes the making of its codes. First the ceiling of mma.sync; the
// share of it that the body "as slow as on a GeForce" reaches is kGeForceTimes times its TFLOP/s. The peer is bench/peers/attention_torch.py, run next to this
// one.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "bench/kernels/attention_ratio.h"
#include "bench/kernels/mma_float_peak.h"
#include "device/cuda_check.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_int8.h"
#include "ops/attention/attention_launch.h"
#include "ops/row_launch.h"

namespace octavo {
namespace {

struct Case {
  std::int64_t rows = 0;
  int heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = false;
};

Tensor random_rows(std::int64_t rows, std::int64_t columns, Device device, const Stream& stream) {
  std::mt19937 random(7);
  std::normal_distribution<float> gauss;
  std::vector<bf16> pool(1 << 20);
  for (bf16& value : pool) value = to_bf16(gauss(random));
  std::vector<bf16> values(std::size_t(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = pool[(i * 7 + i / pool.size()) % pool.size()];
  Tensor tensor(DType::bf16, {rows, columns}, device, "rows");
  copy_bytes(tensor.as<void>(), device, values.data(), Device{}, tensor.bytes(), &stream);
  stream.synchronize();
  return tensor;
}

enum class Body { chosen, mma, as_on_geforce, int8 };

void measure(const Case& c, Body body, int rounds) {
  const Device device{Device::Kind::cuda, 0};
  const Stream stream(device);
  Arena scratch(device);
  ExecContext ctx{.device = device, .scratch = &scratch, .stream = &stream};
  const std::int64_t q_columns = std::int64_t(c.heads) * c.head_dim, kv_columns = std::int64_t(c.kv_heads) * c.head_dim;
  const std::size_t bytes = std::size_t(c.rows) * std::size_t(q_columns + 2 * kv_columns) * 2;
  const int copies = int(std::clamp<std::size_t>((std::size_t(120) << 20) / bytes + 1, 2, 64));
  std::vector<Tensor> fused;
  for (int i = 0; i < copies; ++i) fused.push_back(random_rows(c.rows, q_columns + 2 * kv_columns, device, stream));
  const Tensor y(DType::bf16, {c.rows, q_columns}, device, "y");
  const AttentionArgs args{.heads = c.heads, .kv_heads = c.kv_heads, .softmax_scale = 1.0f / std::sqrt(float(c.head_dim)), .causal = c.causal};
  const auto call = [&](int i) {
    const TensorView all = fused[std::size_t(i % copies)];
    const TensorView q = all.column_range(0, q_columns), k = all.column_range(q_columns, kv_columns), v = all.column_range(q_columns + kv_columns, kv_columns);
    if (body == Body::int8) return attention_int8(ctx, q, k, v, args, y.view());
    if (body == Body::chosen) return attention(ctx, q, k, v, args, y.view());
    const AttentionLaunch launch{.q = rows_in(q),
                                 .k = rows_in(k),
                                 .v = rows_in(v),
                                 .y = rows_in(y),
                                 .queries = c.rows,
                                 .keys = c.rows,
                                 .heads = c.heads,
                                 .kv_heads = c.kv_heads,
                                 .head_dim = c.head_dim,
                                 .softmax_scale = args.softmax_scale,
                                 .causal = c.causal};
    body == Body::mma ? launch_attention_mma(launch, stream_of(ctx)) : bench::launch_attention_as_on_geforce(launch, stream_of(ctx));
  };
  cudaEvent_t begin{}, end{};
  cuda_check(cudaEventCreate(&begin), "event");
  cuda_check(cudaEventCreate(&end), "event");
  std::vector<double> times;
  for (int i = -5; i < rounds; ++i) {
    cuda_check(cudaEventRecord(begin, static_cast<cudaStream_t>(stream.handle())), "record");
    call(i + 5);
    cuda_check(cudaEventRecord(end, static_cast<cudaStream_t>(stream.handle())), "record");
    cuda_check(cudaEventSynchronize(end), "wait");
    float ms = 0;
    cuda_check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (i >= 0) times.push_back(double(ms));
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) { return times[std::size_t(share * double(times.size() - 1))]; };
  const double flop = 4.0 * double(c.rows) * double(c.rows) * double(q_columns) * (c.causal ? 0.5 : 1.0);
  fmt::print(
      "{{\"rows\": {}, \"heads\": {}, \"kv_heads\": {}, \"head_dim\": {}, \"causal\": {}, \"body\": \"{}\", \"ms\": {:.4f}, \"ms_p10\": {:.4f}, "
      "\"ms_p90\": {:.4f}, \"tflops\": {:.1f}}}\n",
      c.rows, c.heads, c.kv_heads, c.head_dim, c.causal,
      body == Body::int8            ? "int8"
      : body == Body::mma           ? "mma.sync"
      : body == Body::as_on_geforce ? "mma.sync, products as slow as on a GeForce"
                                    : "chosen",
      at(0.5), at(0.1), at(0.9), flop / at(0.5) / 1e9);
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  int rounds = 20;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::max(1, std::atoi(argv[i + 1]));
  }
  try {
    fmt::print("{{\"body\": \"mma.sync ceiling (registers only)\", \"tflops\": {:.1f}}}\n", octavo::bench::mma_float_peak_tflops(rounds));
    for (const std::int64_t rows : {2304, 4096, 4352, 6144, 16384}) {
      const octavo::Case denoiser{.rows = rows, .heads = 18, .kv_heads = 18, .head_dim = 256};
      octavo::measure(denoiser, octavo::Body::chosen, rounds);
      octavo::measure(denoiser, octavo::Body::mma, rounds);
      octavo::measure(denoiser, octavo::Body::as_on_geforce, rounds);
      octavo::measure(denoiser, octavo::Body::int8, rounds);
    }
    octavo::measure({.rows = 512, .heads = 32, .kv_heads = 8, .head_dim = 128, .causal = true}, octavo::Body::chosen, rounds);
    octavo::measure({.rows = 16384, .heads = 1, .kv_heads = 1, .head_dim = 512}, octavo::Body::chosen, std::min(rounds, 3));
  } catch (const std::exception& failure) {
    fmt::print(stderr, "attention_bench: {}\n", failure.what());
    return 1;
  }
  return 0;
}
