#include "pipeline/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "octavo/error.h"
#include "pipeline/model_index.h"
#include "weights/dialect.h"
#include "weights/weight_file.h"

namespace octavo {
namespace {

constexpr std::string_view kOverlay = "overlay";  // a quantised file in the model's folder itself, laid over both denoisers

bool is_weight_file(const std::filesystem::path& path) { return path.extension() == ".safetensors" || path.extension() == ".gguf"; }

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

// The projections inside the repeated layers of a denoiser: what w8a8 quantises (numerics.md section 10). The rows of adaLN stay as stored.
// Quantised files may put the layers under a prefix of their own.
bool is_block_linear(std::string_view module) {
  const bool is_repeated = module.starts_with("layers.") || module.find(".layers.") != std::string_view::npos;
  return is_repeated && module.find("adaln") == std::string_view::npos && module.find("norm") == std::string_view::npos;
}

bool is_unused(std::string_view component, std::string_view name) {
  if (component == "text_encoder") return name.find("visual.") != std::string_view::npos || name.starts_with("lm_head");
  if (component == "vae") return name.ends_with("num_batches_tracked");
  return component == "unconditional_transformer" && name.find("llm_cond_") != std::string_view::npos;
}

// How the block linears will be kept: "s8, one scale per row".
std::string format_text(const NumberFormat& format) {
  if (format.granularity == Granularity::per_group)
    return fmt::format("{} blocks of {}", format.storage == DType::u8 ? "4-bit" : name_of(format.storage), format.group);
  return fmt::format("{}, one scale per row", name_of(format.storage));
}

// What nn::Linear makes of a stored matrix of a denoiser (`is_block`: inside the repeated layers). A file with int8 in it left its plain layers plain on
// purpose: they stay so.
std::string loading_of(const StoredLinear& linear, const Precision& precision, bool is_block, bool has_int8) {
  if (!linear.problem.empty()) return "cannot be read: " + linear.problem;
  const bool int8_products = precision.activation.is_quantized();
  if (linear.format == LinearFormat::s8 && int8_products) return "int8 as stored";
  const bool is_same = (linear.format == LinearFormat::e4m3 && precision.weight.storage == DType::f8_e4m3) ||
                       (linear.format == LinearFormat::nf4 && precision.weight.granularity == Granularity::per_group);
  const bool quantizes = is_block && precision.weight.is_quantized() && !is_same && !(int8_products && has_int8);
  if (quantizes) return format_text(precision.weight);
  if (linear.format == LinearFormat::plain) return fmt::format("{}, computed in f32", name_of(linear.dtype));
  return "decoded to f32, some rows at a time";
}

InventoryRow describe_tensor(const std::string& component, const StoredTensor& tensor, const Projections& projections, const Precision& precision,
                             bool has_int8) {
  const std::string module(module_of(tensor.name));
  const auto found = projections.linears.find(module);
  // The bias of a quantised matrix is a plain tensor of its own.
  const bool is_matrix = found != projections.linears.end() && !tensor.name.ends_with(".bias");
  const std::string stored = is_matrix && found->second.format != LinearFormat::plain ? octavo::describe(found->second) : lower(tensor.type);
  if (is_unused(component, tensor.name)) return {"unused", stored, "not read"};
  const bool is_denoiser = component.ends_with("transformer") || component == kOverlay;
  const bool is_block = is_denoiser && is_matrix && is_block_linear(module);
  const char* what = is_block ? "block linears" : is_denoiser ? "everything else" : "weights";
  if (is_matrix) return {what, stored, loading_of(found->second, is_denoiser ? precision : precision::f32, is_block, has_int8)};
  return {what, stored, stored == "f32" || stored == "bf16" || stored == "f16" ? fmt::format("{}, computed in f32", stored) : stored};
}

void add_file(InventoryComponent& component, const std::filesystem::path& path, const Precision& precision) {
  const WeightFile file(path);
  const Projections projections = find_projections(file.tensors(), file.metadata());
  component.files.push_back(path.filename().string());
  component.remarks.insert(component.remarks.end(), projections.remarks.begin(), projections.remarks.end());
  const bool has_int8 =
      std::any_of(projections.linears.begin(), projections.linears.end(), [](const auto& linear) { return linear.second.format == LinearFormat::s8; });
  for (const StoredTensor& tensor : file.tensors()) {
    const InventoryRow row = describe_tensor(component.name, tensor, projections, precision, has_int8);
    auto found = std::find_if(component.rows.begin(), component.rows.end(), [&](const InventoryRow& other) {
      return other.what == row.what && other.stored == row.stored && other.loaded_as == row.loaded_as;
    });
    if (found == component.rows.end()) found = component.rows.insert(component.rows.end(), row);
    found->tensors += 1;
    found->bytes += std::int64_t(tensor.bytes.size());
  }
}

std::string kind_of(const std::filesystem::path& config_path) {
  std::error_code ignored;
  if (!std::filesystem::exists(config_path, ignored)) return "";
  const Json config = read_json(config_path);
  if (!config.is_object()) return "";
  for (const char* key : {"_class_name", "tokenizer_class"}) {
    if (config.contains(key) && config[key].is_string()) return config[key].get<std::string>();
  }
  const auto architectures = config.find("architectures");
  return architectures != config.end() && architectures->is_array() && !architectures->empty() && architectures->front().is_string()
             ? architectures->front().get<std::string>()
             : "";
}

}  // namespace

InventoryComponent list_component(const std::filesystem::path& folder, const std::string& name, const Precision& precision) {
  InventoryComponent component{.name = name, .kind = kind_of(folder / (name == "tokenizer" ? "tokenizer_config.json" : "config.json"))};
  std::vector<std::filesystem::path> paths;
  for (const auto& item : std::filesystem::directory_iterator(folder)) paths.push_back(item.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    if (is_weight_file(path)) add_file(component, path, precision);
  }
  return component;
}

std::vector<InventoryComponent> list_model(const std::filesystem::path& folder, const Precision& precision) {
  const ModelIndex index = ModelIndex::read(folder);
  std::vector<InventoryComponent> components;
  for (const std::string_view name : kComponents) components.push_back(list_component(index.component(name), std::string(name), precision));
  if (InventoryComponent overlay = list_component(folder, std::string(kOverlay), precision); !overlay.files.empty()) components.push_back(std::move(overlay));
  return components;
}

std::vector<InventoryTensor> list_tensors(const std::filesystem::path& path, std::string* container) {
  const WeightFile file(path);
  *container = file.is_gguf() ? "GGUF" : "safetensors";
  const Projections projections = find_projections(file.tensors(), file.metadata());
  std::vector<InventoryTensor> tensors;
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string module(module_of(tensor.name));
    const auto found = projections.linears.find(module);
    std::string role;
    if (found != projections.linears.end() && found->second.format != LinearFormat::plain && !tensor.name.ends_with(".bias")) {
      const bool is_companion = std::find(projections.companions.begin(), projections.companions.end(), tensor.name) != projections.companions.end();
      role = is_companion ? fmt::format("part of '{}'", module) : octavo::describe(found->second);
    }
    tensors.push_back({tensor.name, lower(tensor.type), tensor.shape.text(), role, std::int64_t(tensor.bytes.size())});
  }
  return tensors;
}

}  // namespace octavo
