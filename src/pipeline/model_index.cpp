#include "pipeline/model_index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "octavo/error.h"

namespace octavo {
namespace {

constexpr std::string_view kFamily = "Ideogram4Pipeline";
constexpr std::array kPublishedTaps{0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 35};  // spec section 6.2

// Reads typed fields of one JSON object, with errors that name the file and the field.
class Fields {
 public:
  Fields(const Json& object, std::string who) : object_(object), who_(std::move(who)) {
    if (!object_.is_object()) throw DataError(fmt::format("{}: must be a JSON object, is {}", who_, object_.type_name()));
  }

  std::optional<int> positive_integer(const char* name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer() || *value < 1 || *value > std::numeric_limits<int>::max()) fail(name, *value, "a whole number of at least 1");
    return value->get<int>();
  }

  std::optional<double> number(const char* name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) fail(name, *value, "a number");
    return value->get<double>();
  }

  std::vector<float> number_or_list(const char* name) const {
    const Json* value = find(name);
    if (value == nullptr) return {};
    if (value->is_number()) return {value->get<float>()};
    if (!value->is_array() || value->empty()) fail(name, *value, "a number or a list of numbers");
    std::vector<float> numbers;
    for (const Json& item : *value) {
      if (!item.is_number()) fail(name, *value, "a number or a list of numbers");
      numbers.push_back(item.get<float>());
    }
    return numbers;
  }

  std::vector<std::array<int, 2>> sizes(const char* name) const {
    const Json* value = find(name);
    if (value == nullptr) return {};
    constexpr const char* kWanted = "a list of [width, height] in pixels";
    const auto is_side = [](const Json& side) { return side.is_number_integer() && side >= 1 && side <= std::numeric_limits<int>::max(); };
    if (!value->is_array()) fail(name, *value, kWanted);
    std::vector<std::array<int, 2>> sizes;
    for (const Json& item : *value) {
      if (!item.is_array() || item.size() != 2 || !is_side(item[0]) || !is_side(item[1])) fail(name, *value, kWanted);
      sizes.push_back({item[0].get<int>(), item[1].get<int>()});
    }
    return sizes;
  }

  const Json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  [[noreturn]] void fail(const char* name, const Json& value, const char* wanted) const {
    throw DataError(fmt::format("{}: '{}' must be {}, is {}", who_, name, wanted, value.dump().substr(0, 80)));
  }

 private:
  const Json& object_;
  std::string who_;
};

GenerationDefaults read_defaults(const Json& object, const std::string& who) {
  const Fields fields(object, who);
  return {.width = fields.positive_integer("width"),
          .height = fields.positive_integer("height"),
          .sizes = fields.sizes("sizes"),
          .steps = fields.positive_integer("steps"),
          .guidance = fields.number_or_list("guidance"),
          .mu = fields.number("mu"),
          .std_dev = fields.number("std"),
          .source = who};
}

std::vector<int> read_taps(const Fields& fields) {
  const Json* value = fields.find("text_encoder_taps");
  if (value == nullptr) return {kPublishedTaps.begin(), kPublishedTaps.end()};
  constexpr const char* kWanted = "a list of layer numbers in ascending order";
  if (!value->is_array() || value->empty()) fields.fail("text_encoder_taps", *value, kWanted);
  std::vector<int> taps;
  for (const Json& item : *value) {
    if (!item.is_number_integer() || item < (taps.empty() ? 0 : taps.back() + 1) || item > 10'000) fields.fail("text_encoder_taps", *value, kWanted);
    taps.push_back(item.get<int>());
  }
  return taps;
}

}  // namespace

ModelIndex ModelIndex::read(const std::filesystem::path& folder) {
  const std::string who = fmt::format("model '{}'", folder.string());
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) throw InvalidArgument(fmt::format("{}: does not exist; --model takes the folder of a model", who));
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw InvalidArgument(fmt::format("{}: is a file; --model takes the folder that holds model_index.json", who));
  }
  const auto path = folder / "model_index.json";
  if (!std::filesystem::exists(path, ignored)) {
    throw InvalidArgument(fmt::format("{}: has no model_index.json; expected a folder with it and {}", who, fmt::join(kComponents, ", ")));
  }
  const Json index = read_json(path);
  const Fields fields(index, fmt::format("file '{}'", path.string()));

  ModelIndex result;
  result.folder = folder;
  const Json* family = fields.find("_class_name");
  if (family == nullptr || !family->is_string()) {
    throw InvalidArgument(fmt::format("{}: its model_index.json names no '_class_name'; this program draws with {}", who, kFamily));
  }
  result.family = family->get<std::string>();
  if (result.family != kFamily) {
    throw InvalidArgument(fmt::format("{}: is a '{}'; this program draws with {}", who, result.family.substr(0, 80), kFamily));
  }
  for (const std::string_view component : kComponents) {
    if (!std::filesystem::is_directory(folder / component, ignored)) {
      throw InvalidArgument(fmt::format("{}: its component '{}' is missing; expected the folder '{}' (is the download complete?)", who, component,
                                        (folder / component).string()));
    }
  }
  result.taps = read_taps(fields);
  if (const Json* defaults = fields.find("generation_defaults")) {
    result.defaults = read_defaults(*defaults, fmt::format("file '{}': 'generation_defaults'", path.string()));
  }
  return result;
}

}  // namespace octavo
