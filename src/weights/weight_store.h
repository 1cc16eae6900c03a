// One component's checkpoint: a file, a sharded set, or a file laid over another checkpoint; memory-mapped, looked up by name.
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
#include "weights/stored_linear.h"

namespace octavo {

// What a model asks for. The shape must match exactly. Matrices of linears and embeddings may be stored in any format of StoredLinear, everything
// else in f32, bf16 or f16.
enum class ParamRole : std::uint8_t { linear_weight, bias, norm, embedding, conv_weight, statistic };

struct ParamSpec {
  std::string name{};
  Shape shape{};
  ParamRole role = ParamRole::linear_weight;
  bool optional = false;
};

// A file whose layers replace those of the checkpoint below it. Its tensors stand under `prefix`; what does not is not read.
struct WeightOverlay {
  std::filesystem::path file{};
  std::string prefix{};
};

inline constexpr const char* kRandomWeightsKey = "octavo.random_weights";

class WeightStore {
 public:
  // `path` is a safetensors or GGUF file, or a folder that holds diffusion_pytorch_model.safetensors, model.safetensors, either's *.index.json
  // with its shards, or just one file with weights under any name. GGUF names of language models are translated to the reference's.
  // Throws InvalidArgument if nothing or more than one candidate is there (names what was looked for), DataError if a file is damaged, a shard is
  // missing, or an overlay belongs to another model.
  WeightStore(const std::filesystem::path& path, std::string component, const std::optional<WeightOverlay>& overlay = {});
  ~WeightStore();
  WeightStore(WeightStore&&) noexcept;

  const std::string& component() const;
  // "<module>.weight" also exists if the module stores its matrix under other names.
  bool has(std::string_view name) const;
  // A window onto the map. Throws DataError "transformer: tensor 'x' is missing" / wrong dtype: only plain floats are handed out.
  TensorView get(std::string_view name) const;
  // As get, and checks the shape: DataError with both shapes.
  TensorView get(std::string_view name, const Shape& shape) const;
  // The matrix of a module in whatever format it is stored. Lives as long as the store.
  // Throws DataError if it is missing or damaged, Unsupported if its format is not known.
  const StoredLinear& linear(std::string_view module) const;
  // The same without checking that it can be read; null if there is none.
  const StoredLinear* find_linear(std::string_view module) const;
  std::vector<std::string> modules() const;  // of all matrices, sorted
  // Names of scales, markers and states: parts of a matrix, not parameters of their own.
  const std::vector<std::string>& companions() const;
  // Says whether the same files are meant: their names, sizes and times of change.
  std::string identity() const;
  // True if at least one layer is stored as int8: its plain layers were then left plain on purpose.
  bool has_int8() const;
  // True if the file's matrices are holes that stand for random numbers (its metadata has kRandomWeightsKey): a bench's model. They read as zeros; nn::Linear
  // draws them where they are used.
  bool is_random() const;
  // What 'octavo quantize' did to the files (its metadata key octavo.recipe); empty if nobody said.
  std::string recipe() const;
  // True if it smoothed them: factors of activations are then part of the norms and matrices before a layer, which reads other rows than in the original.
  bool has_folded_smoothing() const;
  // Pages of this tensor, or with "<module>.weight" of all tensors of that module but the bias, may leave memory (converted, not read again).
  void release(std::string_view name) const;
  std::vector<std::string> names() const;
  // What a person should know about the files: lines without the component's name.
  const std::vector<std::string>& remarks() const;

  // Checks a whole list: throws DataError (or Unsupported, for a layer in an unknown format) naming the first missing, misshapen or unreadable tensor
  // (and how many more); returns the names that nobody asked for, except those starting with one of `ignored_prefixes`.
  std::vector<std::string> check(std::span<const ParamSpec> specs, std::span<const std::string_view> ignored_prefixes) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// For whoever needs the numbers. Throws DataError.
[[noreturn]] void refuse_random(const WeightStore& store);

}  // namespace octavo
