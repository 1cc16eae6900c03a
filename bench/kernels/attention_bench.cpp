// Attention on a GPU beside its limit: 18 heads x 256 (the denoiser), 32 of 8 heads x 128 causal (the text encoder), one head x 512 (the autoencoder).
//   attention_bench [--rounds 20] > attention.jsonl
// One JSON line a shape and body: milliseconds (median, 10th and 90th percentile of single calls between CUDA events, inputs larger than L2 in turn),
// TFLOP/s by 4 · Lq · Lk · D · heads (half of it when causal). Random data. Body "int8" includes the making of its codes,
// "int8, ... times" does not. First the ceilings of the products. Bodies on mma.sync with head_dim 256 say what share of the time their products would take at
// these ceilings; "so many times": each product is done so often, which gives it the clocks that it takes on a GeForce (attention_ratio.h). The peer is
// bench/peers/attention_torch.py, run next to this one.
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
#include "ops/attention/attention_int8_backend.h"
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

enum class Body { chosen, mma, as_on_geforce, int8, int8_product, int8_twice, int8_three_times };

struct Ceilings {  // TFLOP/s
  double bf16 = 0, s8 = 0, f16_sums = 0;
};

const char* name_of(Body body) {
  switch (body) {
    case Body::chosen:
      return "chosen";
    case Body::mma:
      return "mma.sync";
    case Body::as_on_geforce:
      return "mma.sync, products as slow as on a GeForce (5 times)";
    case Body::int8:
      return "int8";
    case Body::int8_product:
      return "int8, from codes";
    case Body::int8_twice:
      return "int8, from codes, products as slow as on a GeForce (between 2 and 3 times): 2 times";
    case Body::int8_three_times:
      return "int8, from codes, products as slow as on a GeForce (between 2 and 3 times): 3 times";
  }
  return "";
}

// How often a body does each product; 0 where the share of a ceiling is not asked for.
int times_of(Body body) {
  if (body == Body::mma || body == Body::int8_product) return 1;
  if (body == Body::int8_twice) return 2;
  if (body == Body::int8_three_times) return 3;
  return body == Body::as_on_geforce ? bench::kGeForceTimes : 0;
}

bool is_from_codes(Body body) { return body == Body::int8_product || body == Body::int8_twice || body == Body::int8_three_times; }

void measure(const Case& c, Body body, int rounds, const Ceilings& ceilings) {
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
  std::vector<AttentionCodes> codes;
  for (std::size_t i = 0; is_from_codes(body) && i < fused.size(); ++i) {
    const TensorView all = fused[i], q = all.column_range(0, q_columns), k = all.column_range(q_columns, kv_columns);
    codes.push_back(scratch_codes(ctx, q, k, args));
    attention_codes_cuda(ctx, q, k, all.column_range(q_columns + kv_columns, kv_columns), args, codes.back());
  }
  const auto call = [&](int i) {
    if (is_from_codes(body)) {
      return bench::launch_attention_int8_slowed(product_launch(codes[std::size_t(i % copies)], args, y.view()), times_of(body), stream_of(ctx));
    }
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
      "\"ms_p90\": {:.4f}, \"tflops\": {:.1f}",
      c.rows, c.heads, c.kv_heads, c.head_dim, c.causal, name_of(body), at(0.5), at(0.1), at(0.9), flop / at(0.5) / 1e9);
  if (times_of(body) > 0) {
    const double product_ms = is_from_codes(body) ? flop / 2 / ceilings.s8 / 1e9 + flop / 2 / ceilings.f16_sums / 1e9 : flop / ceilings.bf16 / 1e9;
    fmt::print(", \"share_of_ceiling\": {:.3f}", times_of(body) * product_ms / at(0.5));
  }
  fmt::print("}}\n");
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  int rounds = 20;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::max(1, std::atoi(argv[i + 1]));
  }
  try {
    using octavo::Body;
    const octavo::Ceilings ceilings{.bf16 = octavo::bench::mma_peak_tflops(octavo::bench::MmaKind::bf16, rounds),
                                    .s8 = octavo::bench::mma_peak_tflops(octavo::bench::MmaKind::s8, rounds),
                                    .f16_sums = octavo::bench::mma_peak_tflops(octavo::bench::MmaKind::f16_sums, rounds)};
    fmt::print("{{\"body\": \"mma.sync ceiling (registers only)\", \"tflops\": {:.1f}, \"s8_tops\": {:.1f}, \"f16_sums_tflops\": {:.1f}}}\n", ceilings.bf16,
               ceilings.s8, ceilings.f16_sums);
    for (const std::int64_t rows : {2304, 4096, 4352, 6144, 16384}) {
      const octavo::Case denoiser{.rows = rows, .heads = 18, .kv_heads = 18, .head_dim = 256};
      for (const Body body : {Body::chosen, Body::mma, Body::as_on_geforce, Body::int8, Body::int8_product, Body::int8_twice, Body::int8_three_times})
        octavo::measure(denoiser, body, rounds, ceilings);
    }
    octavo::measure({.rows = 512, .heads = 32, .kv_heads = 8, .head_dim = 128, .causal = true}, Body::chosen, rounds, ceilings);
    octavo::measure({.rows = 16384, .heads = 1, .kv_heads = 1, .head_dim = 512}, Body::chosen, std::min(rounds, 3), ceilings);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "attention_bench: {}\n", failure.what());
    return 1;
  }
  return 0;
}
