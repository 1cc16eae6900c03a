// What is in a model folder or a weight file, and what it would be loaded as, without loading it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "quant/precision.h"

namespace octavo {

// The name of the component that is a quantised file in the model's folder itself, laid over both denoisers.
inline constexpr std::string_view kOverlay = "overlay";

// Tensors of one kind within a component.
struct InventoryRow {
  std::string what{};       // "block linears", "everything else", "unused"
  std::string stored{};     // dtype in the file, lower case
  std::string loaded_as{};  // what computing uses, "not read"
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;         // in the file
  std::int64_t loaded_bytes = 0;  // in memory, once loaded
};

// One matrix: how its file stores it, and what multiplies it.
struct InventoryLayer {
  std::string module{};
  std::string shape{};
  std::string dialect{};   // who writes it so: "ComfyUI int8_tensorwise"
  std::string stored{};    // "int8, row scales, rotated by 256"
  int rotation_group = 0;  // of ConvRot; 0: not rotated
  std::int64_t block = 0;  // weights that share a scale, where that is not a row or the matrix: NF4, GGUF; else 0
  std::int64_t bytes = 0;  // in the file, scales and markers included
  std::int64_t loaded_bytes = 0;
  std::string loaded_as{};
  bool is_native = false;  // multiplied as it is stored
  std::string reason{};    // why not
};

struct InventoryComponent {
  std::string name{};
  std::string kind{};  // `_class_name` or the first of `architectures`, if its config.json says so
  std::vector<std::string> files{};
  std::vector<std::string> remarks{};  // what is odd about the files
  std::vector<InventoryRow> rows{};
  std::vector<InventoryLayer> layers{};  // matrices that the model reads, by name

  std::int64_t loaded_bytes() const;
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
// One safetensors or GGUF file as a component.
InventoryComponent list_file(const std::filesystem::path& file, const Precision& precision);
// One safetensors or GGUF file; `container` becomes "safetensors" or "GGUF".
std::vector<InventoryTensor> list_tensors(const std::filesystem::path& file, std::string* container);

}  // namespace octavo
