// Reading a component's config.json with errors that name the file, the field and what was found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace octavo::models {

class ConfigReader {
 public:
  // Reads folder/config.json. Throws InvalidArgument if it is missing, DataError if it is not a JSON object.
  explicit ConfigReader(const std::filesystem::path& folder);

  // The config must call itself one of `names` in `field` ("_class_name", "model_type").
  // Throws InvalidArgument naming what was found, DataError if the field is absent.
  void expect_family(std::string_view field, std::initializer_list<std::string_view> names) const;

  // From here on, fields are looked up inside this object, if there is one.
  void enter(std::string_view object);

  // Null counts as absent.
  bool has(std::string_view field) const;
  // Each throws DataError if the field is missing, of another type, or outside [low, high].
  std::int64_t integer(std::string_view field, std::int64_t low, std::int64_t high) const;
  double number(std::string_view field, double low, double high) const;
  std::vector<int> integers(std::string_view field, std::size_t min_count, std::size_t max_count, int low, int high) const;
  // Absent: the fallback. Throws DataError if it is of another type.
  bool flag(std::string_view field, bool fallback) const;
  std::string text(std::string_view field, std::string_view fallback) const;

  const Json& json() const { return *scope_; }
  // "transformer/config.json"
  const std::string& who() const { return who_; }

 private:
  const Json& field_at(std::string_view field) const;

  std::string who_;
  Json root_;
  const Json* scope_ = nullptr;
};

}  // namespace octavo::models
