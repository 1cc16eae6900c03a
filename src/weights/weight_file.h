// One file with weights, safetensors or GGUF: its tensors under one description.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weights/dialect.h"

namespace octavo {

class WeightFile {
 public:
  // The container is known by its first bytes, not by its name. Throws as SafetensorsFile and GgufFile do.
  explicit WeightFile(const std::filesystem::path& path);
  ~WeightFile();
  WeightFile(WeightFile&&) noexcept;

  const std::filesystem::path& path() const;
  bool is_gguf() const;
  std::span<const StoredTensor> tensors() const;               // in file order
  const std::map<std::string, std::string>& metadata() const;  // "__metadata__", or the key-values
  // A window onto a tensor of f32, bf16, f16 or another type that we can represent. Throws DataError if it is absent or cannot be represented.
  TensorView view(std::string_view name) const;
  // The tensor's pages may leave memory; they are read again from disk when touched.
  void release(std::string_view name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
