// One component's checkpoint: a single safetensors file or a sharded set, memory-mapped, looked up by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace octavo {

// What a model asks for. The shape must match exactly; the dtype may be any float format unless the role says otherwise.
enum class ParamRole : std::uint8_t { linear_weight, bias, norm, embedding, conv_weight, statistic };

struct ParamSpec {
  std::string name{};
  Shape shape{};
  ParamRole role = ParamRole::linear_weight;
  bool optional = false;
};

class WeightStore {
 public:
  // `folder` holds model.safetensors, diffusion_pytorch_model.safetensors, or either's *.index.json with its shards.
  // Throws InvalidArgument if nothing is there (names what was looked for), DataError if a file is damaged or a shard missing.
  WeightStore(const std::filesystem::path& folder, std::string component);
  ~WeightStore();
  WeightStore(WeightStore&&) noexcept;

  const std::string& component() const;
  bool has(std::string_view name) const;
  // A window onto the map. Throws DataError "transformer: tensor 'x' is missing" / wrong dtype.
  TensorView get(std::string_view name) const;
  // As get, and checks the shape: DataError with both shapes.
  TensorView get(std::string_view name, const Shape& shape) const;
  // Pages of this tensor may leave memory (it was converted and will not be read again).
  void release(std::string_view name) const;
  std::vector<std::string> names() const;

  // Checks a whole list: throws DataError naming the first missing or misshapen tensor (and how many more);
  // returns the names that nobody asked for, except those starting with one of `ignored_prefixes`.
  std::vector<std::string> check(std::span<const ParamSpec> specs, std::span<const std::string_view> ignored_prefixes) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
