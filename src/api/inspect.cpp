#include <fmt/format.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/describe.h"
#include "io/json.h"
#include "io/png.h"
#include "octavo/error.h"
#include "pipeline/inventory.h"
#include "pipeline/metadata.h"

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

Json to_json(const InventoryComponent& component) {
  Json rows = Json::array();
  for (const InventoryRow& row : component.rows) {
    rows.push_back({{"what", row.what}, {"tensors", row.tensors}, {"stored", row.stored}, {"bytes", row.bytes}, {"loaded_as", row.loaded_as}});
  }
  return {{"name", component.name}, {"kind", component.kind}, {"files", component.files}, {"weights", rows}, {"remarks", component.remarks}};
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
    for (const std::string& remark : component.remarks) text += fmt::format("  note: {}\n", remark);
  }
  return text + fmt::format("total: {} tensors, {} ({} bytes)\n", tensors, human(bytes), bytes);
}

std::string describe_components(const std::string& path, const std::string& family, const std::vector<InventoryComponent>& components,
                                const Precision& precision, Format format) {
  if (format == Format::text) {
    return fmt::format("{}: {}, as it would be loaded with --precision {}\n{}", path, family, precision.name, components_text(components));
  }
  Json list = Json::array();
  for (const InventoryComponent& component : components) list.push_back(to_json(component));
  return Json{{"path", path}, {"kind", family}, {"precision", precision.name}, {"components", list}}.dump(2) + "\n";
}

std::string describe_weights(const std::string& path, Format format) {
  std::string container;
  const std::vector<InventoryTensor> tensors = list_tensors(path, &container);
  std::int64_t bytes = 0;
  for (const InventoryTensor& tensor : tensors) bytes += tensor.bytes;
  if (format == Format::text) {
    std::string text = fmt::format("{}: {}, {} tensors, {}\n", path, container, tensors.size(), human(bytes));
    for (const InventoryTensor& tensor : tensors)
      text += fmt::format("  {:<8} {:<20} {:>11}  {}{}\n", tensor.dtype, tensor.shape, human(tensor.bytes), tensor.name,
                          tensor.role.empty() ? "" : fmt::format("  ({})", tensor.role));
    return text;
  }
  Json list = Json::array();
  for (const InventoryTensor& tensor : tensors)
    list.push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", Json::parse(tensor.shape)}, {"bytes", tensor.bytes}, {"role", tensor.role}});
  return Json{{"path", path}, {"kind", container}, {"bytes", bytes}, {"tensors", list}}.dump(2) + "\n";
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
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  std::array<char, 8> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  return std::string_view(head.data(), head.size()) == kSignature;
}

}  // namespace

std::string describe_path(const std::string& path, const std::string& precision_name, Format format) {
  const Precision* precision = precision_name == "auto" ? &precision::f32 : precision::find(precision_name);
  if (precision == nullptr)
    throw InvalidArgument(fmt::format("inspect: --precision '{}' is unknown; known: auto, f32, bf16, w8a8, w8a8-dequant, fp8, nf4", precision_name));
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw InvalidArgument(fmt::format("inspect: '{}' does not exist; give a model folder, a .safetensors file or a .png", path));
  if (!fs::is_directory(path, ignored)) return is_png(path) ? describe_picture(path, format) : describe_weights(path, format);
  if (fs::exists(fs::path(path) / "model_index.json", ignored))
    return describe_components(path, "model folder", list_model(path, *precision), *precision, format);
  const fs::path folder = fs::weakly_canonical(path, ignored);
  InventoryComponent component = list_component(path, folder.filename().string(), *precision);
  if (component.files.empty()) {
    throw InvalidArgument(
        fmt::format("inspect: folder '{}' has neither model_index.json nor a .safetensors file; give a model folder or one of its components", path));
  }
  return describe_components(path, "component", {component}, *precision, format);
}

}  // namespace octavo
