// One forward pass of a denoiser on a GPU, and what its memory is.
//   gpu_forward FOLDER|ideogram4 [--size 1024] [--text 0,256] [--precision w8a8,bf16] [--rounds 10] [--lora-rank R]
// FOLDER holds config.json and weights, as tools/make_large_checkpoint.py writes them; a name of models::random_model_names() is a model of random weights. One
// JSON line a text length and precision: seconds to load, milliseconds of a forward pass (median, 10th and 90th percentile, host clock around stream
// synchronisation), bytes of device memory. With --lora-rank passes with and without a LoRA of that rank on every projection inside the blocks alternate.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "golden/lora_files.h"
#include "models/ideogram4/dit.h"
#include "models/ideogram4/params.h"
#include "models/random_model.h"
#include "nn/placement.h"
#include "octavo/error.h"

namespace octavo {
namespace {

struct Options {
  std::string folder{};
  int size = 1024;
  std::vector<int> text{0, 256};
  std::vector<std::string> precisions{"w8a8", "bf16"};
  int rounds = 10;
  int lora_rank = 0;
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (!name.starts_with("--")) {
      options.folder = name;
      continue;
    }
    if (i + 1 == argc) throw InvalidArgument(fmt::format("gpu_forward: {} wants a value", name));
    const std::string value = argv[++i];
    if (name == "--size") options.size = std::atoi(value.c_str());
    if (name == "--rounds") options.rounds = std::max(1, std::atoi(value.c_str()));
    if (name == "--lora-rank") options.lora_rank = std::atoi(value.c_str());
    if (name == "--precision") options.precisions = split(value);
    if (name == "--text") {
      options.text.clear();
      for (const std::string& count : split(value)) options.text.push_back(std::atoi(count.c_str()));
    }
  }
  if (options.folder.empty() || options.size < 16) throw InvalidArgument("gpu_forward: name the denoiser's folder, and a --size of at least 16");
  return options;
}

Tensor gaussian(Shape shape) {
  std::mt19937 random(3);
  std::normal_distribution<float> gauss;
  Tensor tensor(DType::f32, shape, {}, "random input");
  for (std::int64_t i = 0; i < shape.elements(); ++i) tensor.as<float>()[i] = gauss(random);
  return tensor;
}

// In bf16 as trainers write it, with q, k and v apart.
LoraTerms lora_terms(const ideogram4::Config& config, std::int64_t rank, golden::LoraBuilder& builder) {
  LoraTerms terms;
  for (const LoraTarget& target : ideogram4::lora_targets(config, true)) {
    if (rank == 0 || (target.module.find("attention.to_") == std::string::npos && target.module.find("feed_forward.") == std::string::npos)) continue;
    builder.add_pair(target.module, target.rows, target.columns, rank, 1, DType::bf16);
    terms[target.projection].push_back({.module = target.module,
                                        .down = builder.tensor(target.module + ".lora_A.weight"),
                                        .up = builder.tensor(target.module + ".lora_B.weight"),
                                        .first_row = target.first_row});
  }
  return terms;
}

void measure(const Options& options, const std::string& name) {
  const Precision* known = precision::find(name);
  if (known == nullptr) throw InvalidArgument(fmt::format("gpu_forward: --precision '{}' is unknown", name));
  const Device device{Device::Kind::cuda, 0};
  const Stream stream(device);
  Arena scratch(device);
  ThreadPool pool;
  ExecContext ctx{.device = device, .pool = &pool, .scratch = &scratch, .stream = &stream, .draws_weights = true};
  const Stopwatch load;
  const ideogram4::Dit dit(ctx, options.folder, "transformer", precision::on_gpu(*known, caps_of(device).sm));
  stream.synchronize();
  const double load_seconds = load.seconds();
  const int grid = options.size / 16;
  golden::LoraBuilder builder;
  const LoraTerms lora = lora_terms(dit.config(), options.lora_rank, builder);
  const Tensor noise = gaussian({std::int64_t(grid) * grid, dit.config().in_channels});
  std::vector<Tensor> moved;
  const TensorView latents = nn::place(ctx, noise, moved, "latents");
  const Tensor velocity(DType::f32, noise.shape(), device, "velocity");
  const std::vector<float> times{0.5f};
  for (const int text : options.text) {
    const Tensor features = text > 0 ? gaussian({text, dit.config().llm_features}) : Tensor();
    const auto session = dit.prepare(ctx, grid, grid, text > 0 ? std::optional<TensorView>(features) : std::nullopt, times);
    std::unique_ptr<ideogram4::Session> session_lora;
    if (!lora.empty()) session_lora = dit.prepare(ctx, grid, grid, text > 0 ? std::optional<TensorView>(features) : std::nullopt, times, &lora);
    std::vector<double> milliseconds, lora_milliseconds;
    const auto pass = [&](const ideogram4::Session& of, std::vector<double>* times_of) {
      stream.synchronize();
      const Stopwatch clock;
      dit.forward(ctx, of, 0, latents, velocity);
      stream.synchronize();
      if (times_of != nullptr) times_of->push_back(clock.seconds() * 1e3);
    };
    constexpr int kWarmUps = 4;  // both as they come, twice where the other has made the scratch larger; then recorded
    for (int round = -kWarmUps; round < options.rounds; ++round) {
      pass(*session, round < 0 ? nullptr : &milliseconds);
      if (session_lora) pass(*session_lora, round < 0 ? nullptr : &lora_milliseconds);
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    std::sort(lora_milliseconds.begin(), lora_milliseconds.end());
    const auto at = [&](double share) { return milliseconds[std::size_t(share * double(milliseconds.size() - 1))]; };
    const double with_lora = lora_milliseconds.empty() ? 0 : lora_milliseconds[(lora_milliseconds.size() - 1) / 2];
    std::size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    fmt::print(
        "{{\"precision\": \"{}\", \"size\": {}, \"text\": {}, \"load_s\": {:.2f}, \"forward_ms\": {:.3f}, \"forward_ms_p10\": {:.3f}, "
        "\"forward_ms_p90\": {:.3f}, \"device_bytes\": {}, \"scratch_bytes\": {}, \"lora_rank\": {}, \"lora_forward_ms\": {:.3f}}}\n",
        name, options.size, text, load_seconds, at(0.5), at(0.1), at(0.9), total_bytes - free_bytes, scratch.peak_bytes(), options.lora_rank, with_lora);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  try {
    octavo::Options options = octavo::parse(argc, argv);
    std::optional<octavo::models::TemporaryRandomModel> random;
    const auto names = octavo::models::random_model_names();
    if (std::find(names.begin(), names.end(), options.folder) != names.end()) {
      random.emplace(options.folder);
      options.folder = (random->path() / "transformer").string();
    }
    for (const std::string& name : options.precisions) octavo::measure(options, name);
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
}
