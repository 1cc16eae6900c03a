#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <span>

#include "api/bench_table.h"
#include "api/gpu_bench.h"
#include "api/gpu_state.h"
#include "api/linear_shapes.h"
#include "device/cuda_check.h"
#include "io/json.h"
#include "ops/gated_act/gated_act.h"
#include "ops/linear/linear_timer.h"
#include "ops/norm_modulate/norm_modulate.h"
#include "ops/quantize/quantize_rows.h"

namespace octavo {
namespace {

constexpr std::int64_t kRows = 4096;
constexpr int kGroup = 256;

struct Events {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  Events() {
    cuda_check(cudaEventCreate(&begin), "bench producers: event");
    cuda_check(cudaEventCreate(&end), "bench producers: event");
  }
  ~Events() {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
};

// Operands of one width, several sets deep, so that no set is in the L2 when its turn comes.
struct Sets {
  std::size_t count = 0;
  std::int64_t columns = 0;
  Buffer inputs{};     // bf16 [kRows, columns], two a set (the second is `up`, or the branch)
  Buffer residuals{};  // bf16, read and written; kept apart so that updates do not eat the inputs
  Buffer codes{};      // s8
  Buffer scales{};     // f32
  Buffer vectors{};    // f32: parameters

  std::size_t bytes_bf16() const { return std::size_t(kRows * columns) * 2; }
  TensorView input(std::size_t set, int which, Device device) const {
    return {static_cast<std::byte*>(inputs.data()) + (2 * set + std::size_t(which)) * bytes_bf16(), DType::bf16, {kRows, columns}, device};
  }
  TensorView residual(std::size_t set, Device device) const {
    return {static_cast<std::byte*>(residuals.data()) + set * bytes_bf16(), DType::bf16, {kRows, columns}, device};
  }
  QuantizedView out(std::size_t set, int group, Device device) const {
    return {TensorView(static_cast<std::byte*>(codes.data()) + set * std::size_t(kRows * columns), DType::s8, {kRows, columns}, device),
            TensorView(static_cast<float*>(scales.data()) + set * std::size_t(kRows), DType::f32, {kRows}, device), group};
  }
  TensorView vector(Device device) const { return {vectors.data(), DType::f32, {columns}, device}; }
};

Sets make_sets(std::int64_t columns, const BenchGpu& gpu, const Stream& stream) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> gauss;
  std::vector<std::uint16_t> pattern(1u << 21);
  for (auto& value : pattern) value = to_bf16(gauss(random)).bits;
  std::vector<float> parameters(static_cast<std::size_t>(columns));
  for (float& value : parameters) value = 0.1f * gauss(random);
  Sets sets;
  sets.columns = columns;
  // The least that an op touches in a set is its input and its codes: 3 bytes a value.
  sets.count = std::size_t(std::ceil(3.0 * double(std::max(gpu.caps.l2_bytes, 1 << 20)) / (3.0 * double(kRows * columns)))) + 1;
  sets.inputs = filled_with(std::as_bytes(std::span(pattern)), 2 * sets.count * sets.bytes_bf16(), gpu.device, stream, "rows to quantise");
  sets.residuals = filled_with(std::as_bytes(std::span(pattern)), sets.count * sets.bytes_bf16(), gpu.device, stream, "residual rows");
  sets.codes = Buffer(sets.count * std::size_t(kRows * columns), gpu.device, "codes");
  sets.scales = Buffer(sets.count * std::size_t(kRows) * sizeof(float), gpu.device, "scales");
  sets.vectors = filled_with(std::as_bytes(std::span(parameters)), parameters.size() * sizeof(float), gpu.device, stream, "parameters");
  return sets;
}

struct Op {
  std::string name{};
  double bytes_per_value = 0;
  std::function<void(std::size_t set, int group)> run{};
};

}  // namespace

std::string bench_producers_on_gpu(const BenchOptions& options) {
  const BenchGpu gpu = bench_gpu("bench producers", options.device);
  cuda_check(cudaSetDevice(gpu.device.index), "bench producers: select device");
  const Stream stream(gpu.device);
  Arena scratch(gpu.device);
  ExecContext ctx{.device = gpu.device, .scratch = &scratch, .stream = &stream};
  const Events events;
  auto* handle = static_cast<cudaStream_t>(stream.handle());
  std::size_t turn = 0;
  const auto timed = [&](int repeats, std::size_t sets, const std::function<void(std::size_t)>& enqueue) {
    cuda_check(cudaEventRecord(events.begin, handle), "bench producers: begin");
    for (int i = 0; i < repeats; ++i) enqueue(turn++ % sets);
    cuda_check(cudaEventRecord(events.end, handle), "bench producers: end");
    cuda_check(cudaEventSynchronize(events.end), "bench producers: wait");
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, events.begin, events.end), "bench producers: elapsed");
    return double(milliseconds) * 1e-3 / repeats;
  };

  Json report;
  report["what"] = "row ops at M = 4096, bf16 in, s8 out, cold L2, against a device copy of the same bytes read and written, in turns";
  report["gpu"] = linear_store(gpu.caps).gpu().text();
  report["state_before"] = gpu_state(gpu.device.index).text();
  report["rows"] = Json::array();
  std::string text = fmt::format("{}; {}\n{:<22} {:>6} {:>7} {:>22} {:>10} {:>9} {:>9}\n", report["gpu"].get<std::string>(),
                                 report["state_before"].get<std::string>(), "op", "K", "ConvRot", "us [p10-p90]", "GB/s", "of copy", "ConvRot");
  for (const std::int64_t columns : {std::int64_t(4608), std::int64_t(12288)}) {
    const Sets sets = make_sets(columns, gpu, stream);
    const TensorView vector = sets.vector(gpu.device);
    const std::vector<Op> ops{
        {"quantize_rows", 3, [&](std::size_t set, int group) { quantize_rows(ctx, sets.input(set, 0, gpu.device), sets.out(set, group, gpu.device)); }},
        {"quantize_rows smoothed", 3,
         [&](std::size_t set, int group) {
           quantize_rows(ctx, sets.input(set, 0, gpu.device), sets.out(set, group, gpu.device), {Smoothing::divide, vector});
         }},
        {"rms_norm", 3,
         [&](std::size_t set, int group) { rms_norm(ctx, sets.input(set, 0, gpu.device), {vector, 1e-5f, vector}, sets.out(set, group, gpu.device)); }},
        {"layer_norm", 3,
         [&](std::size_t set, int group) { layer_norm(ctx, sets.input(set, 0, gpu.device), 1e-5f, vector, sets.out(set, group, gpu.device)); }},
        {"silu_mul", 5,
         [&](std::size_t set, int group) { silu_mul(ctx, sets.input(set, 0, gpu.device), sets.input(set, 1, gpu.device), sets.out(set, group, gpu.device)); }},
        {"gated_residual_norm", 7,
         [&](std::size_t set, int group) {
           gated_residual_norm(ctx, sets.residual(set, gpu.device), sets.input(set, 0, gpu.device), vector, {vector, 1e-5f, std::nullopt},
                               {vector, 1e-5f, vector}, sets.out(set, group, gpu.device));
         }},
    };
    for (const Op& op : ops) {
      const double bytes = op.bytes_per_value * double(kRows * columns);
      const auto half = std::size_t(bytes / 2);
      // The copy goes round the inputs as the op does: read half the bytes, write the other half elsewhere, further on in the same pool.
      const std::size_t pool = sets.inputs.size();
      const std::size_t places = std::max<std::size_t>(1, pool / (2 * half));
      auto* base = static_cast<std::byte*>(sets.inputs.data());
      std::vector<Entrant> entrants(3);
      entrants[0] = {.name = "copy", .time = [&](int repeats) {
                       return timed(repeats, places, [&](std::size_t place) {
                         std::byte* from = base + place * 2 * half / 256 * 256;
                         cuda_check(cudaMemcpyAsync(from + half / 256 * 256, from, half / 256 * 256, cudaMemcpyDeviceToDevice, handle),
                                    "bench producers: copy");
                       });
                     }};
      entrants[1] = {.name = op.name, .time = [&](int repeats) { return timed(repeats, sets.count, [&](std::size_t set) { op.run(set, 0); }); }};
      entrants[2] = {.name = op.name + " rotated",
                     .time = [&](int repeats) { return timed(repeats, sets.count, [&](std::size_t set) { op.run(set, kGroup); }); }};
      time_in_turns(entrants, options.quick ? 9 : 31, 1e-3);
      const double copy = entrants[0].spread().median;
      const double plain = entrants[1].spread().median;
      for (std::size_t i = 0; i < entrants.size(); ++i) {
        const Spread spread = entrants[i].spread();
        Json row;
        row["op"] = op.name;
        row["what"] = entrants[i].name;
        row["m"] = kRows;
        row["k"] = columns;
        row["rotation_group"] = i == 2 ? kGroup : 0;
        row["us"] = spread.median * 1e6;
        row["us_p10"] = spread.p10 * 1e6;
        row["us_p90"] = spread.p90 * 1e6;
        row["gb_per_s"] = bytes * 1e-9 / spread.median;
        row["of_copy"] = copy / spread.median;
        if (i == 2) row["rotation_cost"] = spread.median / plain - 1;
        text += fmt::format("{:<22} {:>6} {:>7} {:>8.1f} [{:.1f}-{:.1f}] {:>10.0f} {:>7.1f} % {:>9}\n", i == 0 ? "  copy of as many bytes" : op.name, columns,
                            i == 2 ? kGroup : 0, spread.median * 1e6, spread.p10 * 1e6, spread.p90 * 1e6, bytes * 1e-9 / spread.median,
                            100 * copy / spread.median, i == 2 ? fmt::format("{:+.1f} %", 100 * (spread.median / plain - 1)) : "");
        report["rows"].push_back(std::move(row));
      }
      if (options.progress)
        options.progress(fmt::format("{} K {}: {:.1f} % of a copy, ConvRot {:+.1f} %", op.name, columns, 100 * copy / plain,
                                     100 * (entrants[2].spread().median / plain - 1)));
    }
  }
  report["state_after"] = gpu_state(gpu.device.index).text();
  return options.format == Format::json ? report.dump(2) + "\n" : text;
}

}  // namespace octavo
