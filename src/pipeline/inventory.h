// What is in a model folder or a weight file, and what it would be loaded as, without loading it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "quant/precision.h"

namespace octavo {

// Tensors of one kind within a component.
struct InventoryRow {
  std::string what{};       // "block linears", "everything else", "unused"
  std::string stored{};     // dtype in the file, lower case
  std::string loaded_as{};  // what computing uses, "not read"
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;  // in the file
};

struct InventoryComponent {
  std::string name{};
  std::string kind{};  // `_class_name` or the first of `architectures`, if its config.json says so
  std::vector<std::string> files{};
  std::vector<std::string> remarks{};  // what is odd about the files
  std::vector<InventoryRow> rows{};
};

struct InventoryTensor {
  std::string name{}, dtype{}, shape{};
  std::string role{};  // of a quantised matrix: its format; of its scales and markers: "part of 'module'"
  std::int64_t bytes = 0;
};

// Throws as ModelIndex and WeightFile do.
std::vector<InventoryComponent> list_model(const std::filesystem::path& folder, const Precision& precision);
// A component's folder alone (no model_index.json).
InventoryComponent list_component(const std::filesystem::path& folder, const std::string& name, const Precision& precision);
// One safetensors or GGUF file; `container` becomes "safetensors" or "GGUF".
std::vector<InventoryTensor> list_tensors(const std::filesystem::path& file, std::string* container);

}  // namespace octavo
