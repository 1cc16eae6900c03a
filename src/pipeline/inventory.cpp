#include "pipeline/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "octavo/error.h"
#include "pipeline/model_index.h"
#include "quant/formats/gguf_blocks.h"
#include "weights/dialect.h"
#include "weights/weight_file.h"
#include "weights/weight_store.h"

namespace octavo {
namespace {

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

std::int64_t bytes_as(const NumberFormat& format, const Shape& shape) {
  if (format.granularity == Granularity::per_group) return (shape.elements() + 1) / 2 + (shape.elements() + format.group - 1) / format.group * 4;
  return shape.elements() * std::int64_t(bytes_of(format.storage)) + shape[0] * 4;
}

struct Loading {
  std::string as{};
  bool is_native = false;
  std::string reason{};         // why not
  std::int64_t own_bytes = -1;  // of the copy that loading makes; -1: none, the file's bytes are used
};

// What nn::Linear makes of a stored matrix of a denoiser (`is_block`: inside the repeated layers). A file with int8 in it left its plain layers plain on
// purpose: they stay so.
Loading loading_of(const StoredLinear& linear, const Precision& precision, bool is_block, bool has_int8) {
  if (!linear.problem.empty()) return {.as = "cannot be read: " + linear.problem, .reason = linear.problem};
  const bool int8_products = precision.activation.is_quantized();
  if (linear.format == LinearFormat::s8 && int8_products) {
    if (precision.dequantizes()) return {.as = "int8 as stored, turned back into bf16", .reason = "this precision multiplies in bf16, to compare with"};
    return {.as = "int8 as stored", .is_native = true};
  }
  const bool is_same = (linear.format == LinearFormat::e4m3 && precision.weight.storage == DType::f8_e4m3) ||
                       (linear.format == LinearFormat::nf4 && precision.weight.granularity == Granularity::per_group);
  const bool quantizes = is_block && precision.weight.is_quantized() && !is_same && !(int8_products && has_int8);
  if (quantizes) {
    return {.as = format_text(precision.weight),
            .reason = fmt::format("{} is converted at load", describe(linear)),
            .own_bytes = bytes_as(precision.weight, linear.shape)};
  }
  const DType floats = precision.weight.storage;
  if (linear.format == LinearFormat::plain && is_block && is_float(floats) && floats != DType::f32 && linear.dtype != floats) {
    return {.as = fmt::format("{}, rounded at load", name_of(floats)),
            .reason = fmt::format("{} is converted at load", name_of(linear.dtype)),
            .own_bytes = linear.shape.elements() * std::int64_t(bytes_of(floats))};
  }
  if (linear.format == LinearFormat::plain) {
    return {.as = fmt::format("{}, computed in f32", name_of(linear.dtype)), .is_native = true};
  }
  return {.as = "decoded to f32, some rows at a time",
          .reason = linear.format == LinearFormat::s8 ? "only the denoisers multiply int8, with --precision w8a8"
                                                      : fmt::format("nothing here multiplies {} as it is: weight-only", name_of(linear.format))};
}

std::int64_t block_of(const StoredLinear& linear) {
  switch (linear.format) {
    case LinearFormat::nf4:
      return linear.nf4.block;
    case LinearFormat::q8_0:
      return kQ8_0Block;
    case LinearFormat::q4_0:
      return kQ4_0Block;
    case LinearFormat::q4_k:
      return kQ4_KBlock;
    default:
      return 0;
  }
}

bool is_denoiser(std::string_view component) { return component.ends_with("transformer") || component == kOverlay; }

// `tensors` and `bytes` are those of one tensor.
InventoryRow describe_tensor(const std::string& component, const StoredTensor& tensor, const Projections& projections, const Precision& precision,
                             bool has_int8) {
  const auto bytes = std::int64_t(tensor.bytes.size());
  const std::string module(module_of(tensor.name));
  const auto found = projections.linears.find(module);
  // The bias of a quantised matrix is a plain tensor of its own.
  const bool is_matrix = found != projections.linears.end() && !tensor.name.ends_with(".bias");
  const std::string stored = is_matrix && found->second.format != LinearFormat::plain ? octavo::describe(found->second) : lower(tensor.type);
  if (is_unused(component, tensor.name)) return {"unused", stored, "not read", 1, bytes, 0};
  const bool of_denoiser = is_denoiser(component);
  const bool is_block = of_denoiser && is_matrix && is_block_linear(module);
  const char* what = is_block ? "block linears" : of_denoiser ? "everything else" : "weights";
  if (!is_matrix)
    return {what, stored, stored == "f32" || stored == "bf16" || stored == "f16" ? fmt::format("{}, computed in f32", stored) : stored, 1, bytes, bytes};
  const Loading loading = loading_of(found->second, of_denoiser ? precision : precision::f32, is_block, has_int8);
  // An own copy is counted once, with the tensor that holds the codes.
  const bool holds_codes = found->second.format == LinearFormat::plain || tensor.bytes.data() == found->second.codes;
  return {what, stored, loading.as, 1, bytes, loading.own_bytes < 0 ? bytes : holds_codes ? loading.own_bytes : 0};
}

void add_layers(InventoryComponent& component, const std::string& role, const Projections& projections, const Precision& precision, bool has_int8) {
  const bool of_denoiser = is_denoiser(role);
  for (const auto& [module, linear] : projections.linears) {
    if (is_unused(role, module + ".weight")) continue;
    const Loading loading = loading_of(linear, of_denoiser ? precision : precision::f32, of_denoiser && is_block_linear(module), has_int8);
    component.layers.push_back({.module = module,
                                .shape = linear.shape.text(),
                                .dialect = linear.problem.empty() ? std::string(linear.dialect) : "unknown",
                                .stored = linear.problem.empty() ? octavo::describe(linear) : "unknown",
                                .rotation_group = linear.rotation_group,
                                .block = linear.problem.empty() ? block_of(linear) : 0,
                                .bytes = linear.bytes,
                                .loaded_bytes = loading.own_bytes < 0 ? linear.bytes : loading.own_bytes,
                                .loaded_as = loading.as,
                                .is_native = loading.is_native,
                                .reason = loading.reason});
  }
}

// What the component is: its name in a model folder; of a file or folder with a name of its own, what its tensors tell.
std::string role_of(const std::string& name, std::span<const StoredTensor> tensors) {
  if (name == kOverlay || std::find(kComponents.begin(), kComponents.end(), name) != kComponents.end()) return name;
  const bool of_denoiser =
      std::any_of(tensors.begin(), tensors.end(), [](const StoredTensor& tensor) { return tensor.name.find("adaln") != std::string::npos; });
  return of_denoiser ? "transformer" : name;
}

void add_file(InventoryComponent& component, const std::filesystem::path& path, const Precision& precision) {
  const WeightFile file(path);
  const Projections projections = find_projections(file.tensors(), file.metadata());
  const std::string role = role_of(component.name, file.tensors());
  component.files.push_back(path.filename().string());
  component.remarks.insert(component.remarks.end(), projections.remarks.begin(), projections.remarks.end());
  if (file.metadata().contains(kRandomWeightsKey))
    component.remarks.emplace_back("matrices are holes that stand for random numbers: a model of 'octavo bench model', which draws nothing");
  const bool has_int8 =
      std::any_of(projections.linears.begin(), projections.linears.end(), [](const auto& linear) { return linear.second.format == LinearFormat::s8; });
  for (const StoredTensor& tensor : file.tensors()) {
    const InventoryRow row = describe_tensor(role, tensor, projections, precision, has_int8);
    const auto found = std::find_if(component.rows.begin(), component.rows.end(), [&](const InventoryRow& other) {
      return other.what == row.what && other.stored == row.stored && other.loaded_as == row.loaded_as;
    });
    if (found == component.rows.end()) {
      component.rows.push_back(row);
      continue;
    }
    found->tensors += row.tensors;
    found->bytes += row.bytes;
    found->loaded_bytes += row.loaded_bytes;
  }
  add_layers(component, role, projections, precision, has_int8);
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

std::int64_t InventoryComponent::loaded_bytes() const {
  std::int64_t sum = 0;
  for (const InventoryRow& row : rows) sum += row.loaded_bytes;
  return sum;
}

InventoryComponent list_file(const std::filesystem::path& path, const Precision& precision) {
  InventoryComponent component{.name = path.filename().string()};
  add_file(component, path, precision);
  return component;
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
