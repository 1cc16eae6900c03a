#include "models/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "octavo/error.h"

namespace octavo::models {
namespace {

// A value as it may stand in a message: whole if short.
std::string shown(const Json& value) {
  std::string text = value.dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace

ConfigReader::ConfigReader(const std::filesystem::path& folder) : who_((folder.filename() / "config.json").string()), root_(read_json(folder / "config.json")) {
  if (!root_.is_object()) throw DataError(fmt::format("{}: holds {}, not an object of settings", who_, shown(root_)));
  scope_ = &root_;
}

void ConfigReader::expect_family(std::string_view field, std::initializer_list<std::string_view> names) const {
  if (!has(field)) {
    for (const std::string_view other : {"_class_name", "model_type"}) {  // what the two families of config files call themselves by
      if (!has(other)) continue;
      throw InvalidArgument(
          fmt::format("{}: '{}' is '{}', another model family; this component must be {}", who_, other, text(other, ""), fmt::join(names, " or ")));
    }
    throw DataError(fmt::format("{}: has no '{}', so it cannot be told which model this is; expected {}", who_, field, fmt::join(names, " or ")));
  }
  const std::string found = text(field, "");
  if (std::find(names.begin(), names.end(), found) != names.end()) return;
  throw InvalidArgument(fmt::format("{}: '{}' is '{}', another model family; this component must be {}", who_, field, found, fmt::join(names, " or ")));
}

void ConfigReader::enter(std::string_view object) {
  if (!has(object)) return;
  const Json& inner = field_at(object);
  if (!inner.is_object()) throw DataError(fmt::format("{}: '{}' is {}, not an object", who_, object, shown(inner)));
  scope_ = &inner;
}

bool ConfigReader::has(std::string_view field) const {
  const auto found = scope_->find(std::string(field));
  return found != scope_->end() && !found->is_null();
}

const Json& ConfigReader::field_at(std::string_view field) const {
  if (!has(field)) throw DataError(fmt::format("{}: '{}' is missing", who_, field));
  return *scope_->find(std::string(field));
}

std::int64_t ConfigReader::integer(std::string_view field, std::int64_t low, std::int64_t high) const {
  const Json& value = field_at(field);
  if (!value.is_number_integer()) throw DataError(fmt::format("{}: '{}' is {}, not a whole number", who_, field, shown(value)));
  const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t(INT64_MAX);
  if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
    throw DataError(fmt::format("{}: '{}' is {}, outside {} to {}", who_, field, shown(value), low, high));
  }
  return value.get<std::int64_t>();
}

double ConfigReader::number(std::string_view field, double low, double high) const {
  const Json& value = field_at(field);
  if (!value.is_number()) throw DataError(fmt::format("{}: '{}' is {}, not a number", who_, field, shown(value)));
  const double number = value.get<double>();
  if (!(number >= low && number <= high)) throw DataError(fmt::format("{}: '{}' is {}, outside {} to {}", who_, field, shown(value), low, high));
  return number;
}

std::vector<int> ConfigReader::integers(std::string_view field, std::size_t min_count, std::size_t max_count, int low, int high) const {
  const Json& value = field_at(field);
  const bool is_list = value.is_array() && value.size() >= min_count && value.size() <= max_count;
  std::vector<int> result;
  if (is_list) {
    for (const Json& item : value) {
      const bool fits = item.is_number_integer() && item.get<double>() >= low && item.get<double>() <= high;
      if (fits) result.push_back(item.get<int>());
    }
  }
  if (!is_list || result.size() != value.size()) {
    const std::string count = min_count == max_count ? fmt::format("{}", min_count) : fmt::format("{} to {}", min_count, max_count);
    throw DataError(fmt::format("{}: '{}' is {}, not a list of {} whole numbers from {} to {}", who_, field, shown(value), count, low, high));
  }
  return result;
}

bool ConfigReader::flag(std::string_view field, bool fallback) const {
  if (!has(field)) return fallback;
  const Json& value = field_at(field);
  if (!value.is_boolean()) throw DataError(fmt::format("{}: '{}' is {}, not true or false", who_, field, shown(value)));
  return value.get<bool>();
}

std::string ConfigReader::text(std::string_view field, std::string_view fallback) const {
  if (!has(field)) return std::string(fallback);
  const Json& value = field_at(field);
  if (!value.is_string()) throw DataError(fmt::format("{}: '{}' is {}, not a text", who_, field, shown(value)));
  return value.get<std::string>();
}

}  // namespace octavo::models
