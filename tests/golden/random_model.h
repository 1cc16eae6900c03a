// Checkpoints of any size with random weights, from a model's own list of parameters.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <span>

#include "golden/temporary_model.h"
#include "weights/weight_store.h"

namespace octavo::golden {

// Gaussian weights of variance 1 / inputs, so that every projection keeps the size of its rows; norms and variances are 1, biases small.
// Stored as bf16. The same seed gives the same file.
inline void write_random_checkpoint(const std::filesystem::path& file, std::span<const ParamSpec> specs, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::vector<Tensor> tensors;
  std::vector<NamedTensor> named;
  for (const ParamSpec& spec : specs) {
    Tensor tensor(DType::bf16, spec.shape);
    auto* values = tensor.as<bf16>();
    const std::int64_t inputs = spec.shape.rank() < 2 ? 1 : spec.shape.elements() / spec.shape[0];
    const bool is_one = spec.role == ParamRole::norm || spec.name.ends_with("running_var");
    const float sigma = spec.role == ParamRole::bias || spec.role == ParamRole::statistic ? 0.02f : 1.0f / std::sqrt(float(inputs));
    for (std::int64_t i = 0; i < spec.shape.elements(); ++i) {
      // Sum of four uniform numbers: Gaussian enough for weights, and ten times cheaper than the library's.
      const std::uint32_t a = bits(), b = bits();
      const float uniform4 = (float(a & 0xffffu) + float(a >> 16) + float(b & 0xffffu) + float(b >> 16)) / 65535.0f - 2.0f;
      values[i] = to_bf16(is_one ? 1.0f : uniform4 * sigma * 1.7320508f);
    }
    named.push_back({spec.name, tensor});
    tensors.push_back(std::move(tensor));
  }
  std::filesystem::create_directories(file.parent_path());
  write_safetensors(file, named);
}

// Rows of N(0, 1) numbers.
inline Tensor random_rows(Shape shape, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  Tensor tensor(DType::f32, shape);
  for (std::int64_t i = 0; i < shape.elements(); ++i) tensor.as<float>()[i] = normal(bits);
  return tensor;
}

}  // namespace octavo::golden
