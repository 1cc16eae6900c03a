#include "pipeline/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "octavo/error.h"
#include "octavo/version.h"

namespace octavo {
namespace {

// The double that prints like the float: 0.1f becomes 0.1, not 0.10000000149011612. Reading it back as float gives the same float.
double as_printed(float value) { return std::stod(fmt::format("{}", value)); }

Json guidance_json(const std::vector<float>& values) {
  if (std::all_of(values.begin(), values.end(), [&](float value) { return value == values.front(); })) return as_printed(values.front());
  Json list = Json::array();
  for (const float value : values) list.push_back(as_printed(value));
  return list;
}

bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f; }

// One word for the shell. Control characters become escapes of $'…', so that a picture from elsewhere cannot steer the terminal that prints it.
std::string shell_quoted(const std::string& text) {
  if (std::any_of(text.begin(), text.end(), is_control)) {
    std::string escaped;
    for (const char c : text) {
      escaped += is_control(c) ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : c == '\\' ? "\\\\" : c == '\'' ? "\\'" : std::string(1, c);
    }
    return fmt::format("$'{}'", escaped);
  }
  if (!text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+=@%") == std::string::npos) return text;
  std::string inner;
  for (const char c : text) inner += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return fmt::format("'{}'", inner);
}

std::string option_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const Json& item : value) list += fmt::format("{}{}", list.empty() ? "" : ",", item.dump());
  return list;
}

}  // namespace

std::string request_json(const Request& resolved, const Origin& origin, std::uint64_t seed) {
  Json json;
  json["version"] = version();
  if (!origin.model.empty()) json["model"] = origin.model;
  json["prompt"] = resolved.prompt;
  json["width"] = *resolved.width;
  json["height"] = *resolved.height;
  json["steps"] = *resolved.steps;
  json["guidance"] = guidance_json(resolved.guidance);
  json["mu"] = *resolved.mu;
  json["std"] = *resolved.std_dev;
  json["schedule_end"] = resolved.schedule_end == ScheduleEnd::official ? "official" : "zero";
  const bool is_slice = resolved.noise && resolved.batch > 1;  // of a noise tensor [B, L, C]: only the whole batch repeats it
  json["seed"] = is_slice ? resolved.seed : seed;
  if (is_slice) json["batch"] = resolved.batch;
  if (resolved.noise) json["noise"] = fmt::format("{}:{}", resolved.noise->path, resolved.noise->tensor);
  for (const LoraSource& lora : resolved.loras) json["lora"].push_back(fmt::format("{}:{}", lora.path, lora.strength));
  json["precision"] = origin.precision;
  json["device"] = origin.device;
  if (!origin.gpu.empty()) json["gpu"] = origin.gpu;
  json["kernels"] = origin.kernels;
  if (!origin.attention.empty()) json["attention"] = origin.attention;
  if (origin.cpu_reference) json["cpu_reference"] = true;
  if (resolved.force) json["force"] = true;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // a path need not be UTF-8; the prompt is
}

std::map<std::string, std::string> picture_metadata(const Request& resolved, const Origin& origin, std::uint64_t seed) {
  return {{kSoftwareKey, fmt::format("octavo {}", version())}, {kRequestKey, request_json(resolved, origin, seed)}};
}

std::string command_from_request_json(const std::string& text) {
  const Json json = parse_json(text, "the picture's request");
  if (!json.is_object()) throw DataError("the picture's request: is not a JSON object; the text chunk was probably edited");
  // Only what request_json writes becomes an option: the text may come from anybody, and the command is meant to be pasted.
  constexpr std::array<std::string_view, 18> kOptions{"model", "prompt", "width", "height",    "steps",  "guidance",     "mu",    "std",           "seed",
                                                      "batch", "noise",  "lora",  "precision", "device", "schedule_end", "force", "cpu_reference", "attention"};
  std::string command = "octavo generate";
  for (const auto& [key, value] : json.items()) {
    if (std::find(kOptions.begin(), kOptions.end(), key) == kOptions.end()) continue;  // "version", "kernels": facts, not wishes
    std::string option = fmt::format("--{}", key);
    std::replace(option.begin(), option.end(), '_', '-');
    const auto add = [&](const Json& word) { command += fmt::format(" {} {}", option, shell_quoted(option_text(word))); };
    if (value.is_boolean()) {
      command += fmt::format(" {}", option);
    } else if (key == "lora" && value.is_array()) {
      for (const Json& file : value) add(file);  // given once for each file
    } else {
      add(value);
    }
  }
  return command;
}

}  // namespace octavo
