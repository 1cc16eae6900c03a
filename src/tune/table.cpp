#include "tune/table.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "octavo/error.h"

namespace octavo::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "octavo-tuned";

[[noreturn]] void refuse(const std::string& who, const std::string& why) {
  throw DataError(fmt::format("{}: {}; it can be made again with 'octavo tune'", who, why));
}

const Json& member(const Json& object, const char* name, const std::string& who) {
  if (!object.is_object() || !object.contains(name)) refuse(who, fmt::format("is no tuning table ('{}' is missing)", name));
  return object[name];
}

std::int64_t integer(const Json& object, const char* name, std::int64_t least, const std::string& who) {
  const Json& value = member(object, name, who);
  if (!value.is_number_integer() || value.get<std::int64_t>() < least)
    refuse(who, fmt::format("'{}' is {}, not a number of at least {}", name, value.dump(), least));
  return value.get<std::int64_t>();
}

std::string text(const Json& object, const char* name, const std::string& who) {
  const Json& value = member(object, name, who);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) refuse(who, fmt::format("'{}' is {}, not a name", name, value.dump()));
  return value.get<std::string>();
}

double seconds(const Json& object, const char* name, const std::string& who) {
  const Json& value = member(object, name, who);
  if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
    refuse(who, fmt::format("'{}' is {}, not a time", name, value.dump()));
  return value.get<double>() * 1e-6;
}

double microseconds(double value) { return std::round(value * 1e9) / 1e3; }  // three decimals: below what can be measured

}  // namespace

const Entry* Table::find(const ShapeKey& shape) const {
  const auto found = entries_.find(shape);
  return found == entries_.end() ? nullptr : &found->second;
}

std::string Table::to_json() const {
  Json root;
  root["format"] = kFormat;
  root["version"] = kVersion;
  root["gpu"] = {{"name", gpu_.name}, {"sm", gpu_.sm}, {"sm_count", gpu_.sm_count}, {"driver_major", gpu_.driver_major}};
  root["kernel_set"] = gpu_.kernel_set;
  Json choices = Json::array();
  for (const auto& [shape, entry] : entries_) {
    Json lost = Json::array();
    for (const Standing& standing : entry.lost) lost.push_back({{"id", standing.id}, {"us", microseconds(standing.seconds)}});
    Json choice;
    choice["m"] = shape.m;
    if (shape.m2 != 0) choice["m2"] = shape.m2;
    choice["n"] = shape.n;
    choice["k"] = shape.k;
    choice["epilogue"] = shape.epilogue;
    choice["out"] = shape.out;
    choice["winner"] = entry.winner;
    choice["raster_group"] = entry.raster_group;
    choice["us"] = microseconds(entry.seconds);
    choice["measured_m"] = entry.measured_m;
    choice["lost"] = std::move(lost);
    choices.push_back(std::move(choice));
  }
  // One choice a line: a table is reviewed and compared as text.
  const std::string head = Json{{"format", root["format"]}, {"version", root["version"]}, {"gpu", root["gpu"]}, {"kernel_set", root["kernel_set"]}}.dump();
  std::string lines = head.substr(0, head.size() - 1) + ",\"choices\":[";
  for (std::size_t i = 0; i < choices.size(); ++i) lines += (i == 0 ? "\n" : ",\n") + choices[i].dump();
  return lines + "\n]}\n";
}

Table Table::from_json(std::string_view json, const std::string& who) {
  if (json.size() > kMaxFileBytes) refuse(who, fmt::format("has {} bytes, more than a tuning table may have ({})", json.size(), kMaxFileBytes));
  const Json root = Json::parse(json, nullptr, false);
  if (root.is_discarded()) refuse(who, "is not JSON, or was cut short");
  if (text(root, "format", who) != kFormat) refuse(who, "is no tuning table");
  const std::int64_t version = integer(root, "version", 1, who);
  if (version != kVersion) refuse(who, fmt::format("has version {}, this program reads version {}", version, kVersion));
  const Json& gpu = member(root, "gpu", who);
  Table table({.name = text(gpu, "name", who),
               .sm = int(integer(gpu, "sm", 1, who)),
               .sm_count = int(integer(gpu, "sm_count", 1, who)),
               .driver_major = int(integer(gpu, "driver_major", 0, who)),
               .kernel_set = text(root, "kernel_set", who)});
  const Json& choices = member(root, "choices", who);
  if (!choices.is_array()) refuse(who, "'choices' is not a list");
  for (const Json& choice : choices) {
    const ShapeKey shape{.n = integer(choice, "n", 1, who),
                         .k = integer(choice, "k", 1, who),
                         .m = integer(choice, "m", 1, who),
                         .m2 = choice.contains("m2") ? integer(choice, "m2", 1, who) : 0,
                         .epilogue = text(choice, "epilogue", who),
                         .out = text(choice, "out", who)};
    Entry entry{.winner = text(choice, "winner", who),
                .raster_group = int(integer(choice, "raster_group", 0, who)),
                .seconds = seconds(choice, "us", who),
                .measured_m = integer(choice, "measured_m", 1, who)};
    const Json& lost = member(choice, "lost", who);
    if (!lost.is_array()) refuse(who, "'lost' is not a list");
    for (const Json& standing : lost) entry.lost.push_back({text(standing, "id", who), seconds(standing, "us", who)});
    table.put(shape, std::move(entry));
  }
  return table;
}

}  // namespace octavo::tune
