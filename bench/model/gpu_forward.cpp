// One forward pass of a denoiser on a GPU, and what its memory is.
//   gpu_forward FOLDER [--size 1024] [--text 0,256] [--precision w8a8,bf16] [--rounds 10]
// FOLDER holds config.json and weights, as tools/make_large_checkpoint.py writes them. One JSON line a text length and precision: seconds to load,
// milliseconds of a forward pass (median, 10th and 90th percentile, host clock around stream synchronisation), bytes of device memory.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "models/ideogram4/dit.h"
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

void measure(const Options& options, const std::string& name) {
  const Precision* known = precision::find(name);
  if (known == nullptr) throw InvalidArgument(fmt::format("gpu_forward: --precision '{}' is unknown", name));
  const Device device{Device::Kind::cuda, 0};
  const Stream stream(device);
  Arena scratch(device);
  ThreadPool pool;
  ExecContext ctx{.device = device, .pool = &pool, .scratch = &scratch, .stream = &stream};
  const Stopwatch load;
  const ideogram4::Dit dit(ctx, options.folder, "transformer", precision::on_gpu(*known, caps_of(device).sm));
  stream.synchronize();
  const double load_seconds = load.seconds();
  const int grid = options.size / 16;
  const Tensor noise = gaussian({std::int64_t(grid) * grid, dit.config().in_channels});
  std::vector<Tensor> moved;
  const TensorView latents = nn::place(ctx, noise, moved, "latents");
  const Tensor velocity(DType::f32, noise.shape(), device, "velocity");
  const std::vector<float> times{0.5f};
  for (const int text : options.text) {
    const Tensor features = text > 0 ? gaussian({text, dit.config().llm_features}) : Tensor();
    const auto session = dit.prepare(ctx, grid, grid, text > 0 ? std::optional<TensorView>(features) : std::nullopt, times);
    std::vector<double> milliseconds;
    for (int round = -3; round < options.rounds; ++round) {
      stream.synchronize();
      const Stopwatch clock;
      dit.forward(ctx, *session, 0, latents, velocity);
      stream.synchronize();
      if (round >= 0) milliseconds.push_back(clock.seconds() * 1e3);
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    const auto at = [&](double share) { return milliseconds[std::size_t(share * double(milliseconds.size() - 1))]; };
    std::size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    fmt::print(
        "{{\"precision\": \"{}\", \"size\": {}, \"text\": {}, \"load_s\": {:.2f}, \"forward_ms\": {:.3f}, \"forward_ms_p10\": {:.3f}, "
        "\"forward_ms_p90\": {:.3f}, \"device_bytes\": {}, \"scratch_bytes\": {}}}\n",
        name, options.size, text, load_seconds, at(0.5), at(0.1), at(0.9), total_bytes - free_bytes, scratch.peak_bytes());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  try {
    const octavo::Options options = octavo::parse(argc, argv);
    for (const std::string& name : options.precisions) octavo::measure(options, name);
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
}
