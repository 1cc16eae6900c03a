#include "pipeline/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/safetensors.h"
#include "octavo/error.h"
#include "pipeline/model_index.h"

namespace octavo {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

// The projections inside the repeated layers of a denoiser: what w8a8 quantises (numerics.md section 10). The rows of adaLN stay as stored.
bool is_block_linear(const SafetensorsEntry& entry) {
  return entry.name.starts_with("layers.") && entry.shape.rank() == 2 && entry.name.ends_with(".weight") && entry.name.find("adaln") == std::string::npos;
}

bool is_unused(const std::string& component, const std::string& name) {
  if (component == "text_encoder") return name.find("visual.") != std::string::npos || name.starts_with("lm_head");
  return component == "unconditional_transformer" && name.starts_with("llm_cond_");
}

InventoryRow describe(const std::string& component, const SafetensorsEntry& entry, const Precision& precision) {
  const std::string stored = lower(entry.dtype_name);
  if (is_unused(component, entry.name)) return {"unused", stored, "not read"};
  if (!entry.dtype) return {"unknown format", stored, "cannot be read"};
  const bool is_denoiser = component.ends_with("transformer");
  if (is_denoiser && is_block_linear(entry)) {
    const bool quantizes = precision.weight.is_quantized();
    return {"block linears", stored, quantizes ? "s8 + f32 scale per row" : fmt::format("{}, computed in f32", stored)};
  }
  return {is_denoiser ? "everything else" : "weights", stored, is_float(*entry.dtype) ? fmt::format("{}, computed in f32", stored) : stored};
}

void add_file(InventoryComponent& component, const std::filesystem::path& path, const Precision& precision) {
  const SafetensorsFile file(path);
  component.files.push_back(path.filename().string());
  for (const SafetensorsEntry& entry : file.entries()) {
    const InventoryRow row = describe(component.name, entry, precision);
    auto found = std::find_if(component.rows.begin(), component.rows.end(),
                              [&](const InventoryRow& other) { return other.what == row.what && other.stored == row.stored; });
    if (found == component.rows.end()) found = component.rows.insert(component.rows.end(), row);
    found->tensors += 1;
    found->bytes += std::int64_t(entry.bytes);
  }
}

std::string kind_of(const std::filesystem::path& config_path) {
  std::error_code ignored;
  if (!std::filesystem::exists(config_path, ignored)) return "";
  const Json config = read_json(config_path);
  if (!config.is_object()) return "";
  if (config.contains("_class_name") && config["_class_name"].is_string()) return config["_class_name"].get<std::string>();
  const auto architectures = config.find("architectures");
  return architectures != config.end() && architectures->is_array() && !architectures->empty() && architectures->front().is_string()
             ? architectures->front().get<std::string>()
             : "";
}

}  // namespace

InventoryComponent list_component(const std::filesystem::path& folder, const std::string& name, const Precision& precision) {
  InventoryComponent component{.name = name, .kind = kind_of(folder / "config.json")};
  std::vector<std::filesystem::path> paths;
  for (const auto& item : std::filesystem::directory_iterator(folder)) paths.push_back(item.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    if (path.extension() == ".safetensors") add_file(component, path, precision);
  }
  return component;
}

std::vector<InventoryComponent> list_model(const std::filesystem::path& folder, const Precision& precision) {
  const ModelIndex index = ModelIndex::read(folder);
  std::vector<InventoryComponent> components;
  for (const std::string_view name : kComponents) components.push_back(list_component(index.component(name), std::string(name), precision));
  return components;
}

std::vector<InventoryTensor> list_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<InventoryTensor> tensors;
  for (const SafetensorsEntry& entry : file.entries()) tensors.push_back({entry.name, lower(entry.dtype_name), entry.shape.text(), std::int64_t(entry.bytes)});
  return tensors;
}

}  // namespace octavo
