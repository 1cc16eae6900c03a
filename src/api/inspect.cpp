#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/describe.h"
#include "api/named_options.h"
#include "io/json.h"
#include "io/png.h"
#include "octavo/error.h"
#include "pipeline/inventory.h"
#include "pipeline/metadata.h"
#include "pipeline/prediction.h"

namespace octavo {
namespace {

// Text from a file of anybody's, without what could steer a terminal: control characters other than newline and tab are shown as \xNN.
std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    shown += is_control ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return shown;
}

namespace fs = std::filesystem;

std::string human(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

Json layers_json(const InventoryComponent& component) {
  Json layers = Json::array();
  for (const InventoryLayer& layer : component.layers) {
    layers.push_back({{"module", layer.module},
                      {"shape", layer.shape},
                      {"dialect", layer.dialect},
                      {"stored", layer.stored},
                      {"rotation_group", layer.rotation_group},
                      {"block", layer.block},
                      {"bytes", layer.bytes},
                      {"loaded_as", layer.loaded_as},
                      {"native", layer.is_native},
                      {"reason", layer.reason}});
  }
  return layers;
}

Json to_json(const InventoryComponent& component) {
  Json rows = Json::array();
  for (const InventoryRow& row : component.rows) {
    rows.push_back({{"what", row.what}, {"tensors", row.tensors}, {"stored", row.stored}, {"bytes", row.bytes}, {"loaded_as", row.loaded_as}});
  }
  return {{"name", component.name}, {"kind", component.kind},           {"files", component.files},
          {"weights", rows},        {"layers", layers_json(component)}, {"remarks", component.remarks}};
}

// How many matrices are multiplied as the file has them, and one line for each reason why others are not, the most frequent first.
std::string native_text(const InventoryComponent& component) {
  if (component.layers.empty()) return "";
  std::vector<std::pair<std::string, std::size_t>> reasons;
  std::size_t native = 0;
  for (const InventoryLayer& layer : component.layers) {
    if (layer.is_native) {
      ++native;
      continue;
    }
    const auto found = std::find_if(reasons.begin(), reasons.end(), [&](const auto& known) { return known.first == layer.reason; });
    if (found == reasons.end()) {
      reasons.emplace_back(layer.reason, 1);
    } else {
      ++found->second;
    }
  }
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr std::size_t kShown = 4;
  std::string text = fmt::format("  as stored: {} of {} matrices\n", native, component.layers.size());
  for (std::size_t i = 0; i < std::min(kShown, reasons.size()); ++i)
    text += fmt::format("  not as stored: {} ({})\n", reasons[i].second, printable(reasons[i].first));
  if (reasons.size() > kShown) text += fmt::format("  not as stored: {} other reasons, see --json\n", reasons.size() - kShown);
  return text;
}

// "ComfyUI int8_tensorwise: 10, plain: 7"
std::string dialects_text(const InventoryComponent& component) {
  std::map<std::string, std::size_t> counts;
  for (const InventoryLayer& layer : component.layers) ++counts[layer.dialect];
  std::string text;
  for (const auto& [dialect, count] : counts) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", dialect, count);
  return text.empty() ? "" : fmt::format("  dialects of its matrices: {}\n", text);
}

std::string prediction_text(const MemoryPrediction& p) {
  const auto part = [](double bytes) { return human(std::int64_t(bytes)); };
  return fmt::format(
      "predicted memory (VRAM on a GPU) at {}x{}, {} steps, {} text tokens: {}\n  text encoder   {} weights + {} activations\n"
      "  drawing        {} weights + {} activations\n  a prediction from the sizes, not measured; the text encoder leaves before drawing begins\n",
      p.width, p.height, p.steps, p.text_tokens, part(p.bytes()), part(p.text_weights), part(p.text_activations), part(p.draw_weights),
      part(p.draw_activations));
}

Json prediction_json(const MemoryPrediction& p) {
  const auto bytes = [](double value) { return std::int64_t(value); };
  return {{"width", p.width},
          {"height", p.height},
          {"steps", p.steps},
          {"text_tokens", p.text_tokens},
          {"bytes", bytes(p.bytes())},
          {"text_encoder", {{"weights", bytes(p.text_weights)}, {"activations", bytes(p.text_activations)}}},
          {"drawing", {{"weights", bytes(p.draw_weights)}, {"activations", bytes(p.draw_activations)}}}};
}

std::string components_text(const std::vector<InventoryComponent>& components) {
  std::string text;
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;
  for (const InventoryComponent& component : components) {
    text += fmt::format("{}{}\n", component.name, component.kind.empty() ? "" : fmt::format("  ({})", component.kind));
    for (const InventoryRow& row : component.rows) {
      text += fmt::format("  {:<16} {:>6} tensors {:>10} {:>11}   -> {}\n", row.what, row.tensors, row.stored, human(row.bytes), row.loaded_as);
      tensors += row.tensors;
      bytes += row.bytes;
    }
    text += dialects_text(component) + native_text(component);
    for (const std::string& remark : component.remarks) text += fmt::format("  note: {}\n", printable(remark));
  }
  return text + fmt::format("total: {} tensors, {} ({} bytes)\n", tensors, human(bytes), bytes);
}

struct Prediction {
  std::optional<MemoryPrediction> value{};
  std::string obstacle{};
};

// A folder with a broken configuration is still listed; only who asked for a size wants to hear of it as an error.
Prediction predict(const std::string& path, const std::vector<InventoryComponent>& components, const InspectOptions& options) {
  try {
    return {.value = predict_memory(path, components, options.width, options.height)};
  } catch (const Error& error) {
    constexpr std::string_view kOther = "generate: ";  // the request is checked in the words of the command that draws
    const std::string_view message = error.what();
    if ((options.width || options.height) && message.starts_with(kOther)) throw InvalidArgument(fmt::format("inspect: {}", message.substr(kOther.size())));
    if (options.width || options.height) throw;
    return {.obstacle = error.what()};
  }
}

std::string describe_components(const std::string& path, const std::string& family, const std::vector<InventoryComponent>& components,
                                const Precision& precision, const Prediction& prediction, Format format) {
  if (format == Format::text) {
    return fmt::format("{}: {}, as it would be loaded with --precision {}\n{}{}", path, family, precision.name, components_text(components),
                       prediction.value ? prediction_text(*prediction.value) : fmt::format("no memory is predicted: {}\n", printable(prediction.obstacle)));
  }
  Json list = Json::array();
  for (const InventoryComponent& component : components) list.push_back(to_json(component));
  Json all{{"path", path}, {"kind", family}, {"precision", precision.name}, {"components", list}};
  all["predicted_memory"] = prediction.value ? prediction_json(*prediction.value) : Json(nullptr);
  if (!prediction.value) all["no_prediction_because"] = prediction.obstacle;
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string describe_weights(const std::string& path, const Precision& precision, Format format) {
  std::string container;
  const std::vector<InventoryTensor> tensors = list_tensors(path, &container);
  std::int64_t bytes = 0;
  for (const InventoryTensor& tensor : tensors) bytes += tensor.bytes;
  const InventoryComponent component = list_file(path, precision);
  if (format == Format::text) {
    std::string text = fmt::format("{}: {}, {} tensors, {}\n", path, container, tensors.size(), human(bytes));
    for (const InventoryTensor& tensor : tensors)
      text += fmt::format("  {:<8} {:<20} {:>11}  {}{}\n", tensor.dtype, tensor.shape, human(tensor.bytes), printable(tensor.name),
                          tensor.role.empty() ? "" : fmt::format("  ({})", printable(tensor.role)));
    for (const std::string& remark : component.remarks) text += fmt::format("note: {}\n", printable(remark));
    return text +
           fmt::format("as it would be loaded with --precision {}: {} of weights (predicted; of activations a model folder knows)\n", precision.name,
                       human(component.loaded_bytes())) +
           dialects_text(component) + native_text(component);
  }
  Json list = Json::array();
  for (const InventoryTensor& tensor : tensors)
    list.push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", Json::parse(tensor.shape)}, {"bytes", tensor.bytes}, {"role", tensor.role}});
  const Json all{{"path", path},
                 {"kind", container},
                 {"bytes", bytes},
                 {"precision", precision.name},
                 {"tensors", list},
                 {"layers", layers_json(component)},
                 {"remarks", component.remarks},
                 {"predicted_weight_bytes", component.loaded_bytes()}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string describe_picture(const std::string& path, Format format) {
  const Image image = read_png(path);
  const auto request = image.metadata.find(kRequestKey);
  if (format == Format::json) {
    Json json{{"path", path}, {"kind", "png"}, {"width", image.width}, {"height", image.height}};
    json["request"] = request == image.metadata.end() ? Json(nullptr) : parse_json(request->second, path);
    Json texts = Json::object();
    for (const auto& [key, text] : image.metadata) {
      if (key != kRequestKey) texts[key] = text;
    }
    json["text"] = texts;
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  std::string text = fmt::format("{}: PNG, {}x{}\n", path, image.width, image.height);
  for (const auto& [key, value] : image.metadata) {
    if (key != kRequestKey) text += fmt::format("  {:<14} {}\n", printable(key), printable(value));
  }
  if (request == image.metadata.end()) return text + "  holds no request of octavo\n";
  const Json fields = parse_json(request->second, path);
  if (fields.is_object()) {
    for (const auto& [key, value] : fields.items()) {
      text += fmt::format("  {:<14} {}\n", printable(key), value.is_string() ? printable(value.get<std::string>()) : value.dump());
    }
  }
  return text + fmt::format("again: {}\n", command_from_request_json(request->second));
}

bool is_png(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;  // opening a pipe would wait for a writer
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  std::array<char, 8> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  return std::string_view(head.data(), head.size()) == kSignature;
}

}  // namespace

std::string describe_path(const std::string& path, const InspectOptions& options, Format format) {
  const Precision precision = precision_named("inspect", options.precision).value_or(precision::f32);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw InvalidArgument(fmt::format("inspect: '{}' does not exist; give a model folder, a .safetensors file or a .png", path));
  const bool is_model = fs::exists(fs::path(path) / "model_index.json", ignored);
  if (!is_model && (options.width || options.height)) {
    throw InvalidArgument(fmt::format("inspect: --width and --height predict the memory of a picture, which takes a whole model folder; '{}' is none", path));
  }
  if (!fs::is_directory(path, ignored)) return is_png(path) ? describe_picture(path, format) : describe_weights(path, precision, format);
  if (is_model) {
    const std::vector<InventoryComponent> components = list_model(path, precision);
    return describe_components(path, "model folder", components, precision, predict(path, components, options), format);
  }
  const fs::path folder = fs::weakly_canonical(path, ignored);
  InventoryComponent component = list_component(path, folder.filename().string(), precision);
  if (component.files.empty()) {
    throw InvalidArgument(
        fmt::format("inspect: folder '{}' has neither model_index.json nor a .safetensors file; give a model folder or one of its components", path));
  }
  return describe_components(path, "component", {component}, precision, {.obstacle = "it takes a whole model folder"}, format);
}

}  // namespace octavo
