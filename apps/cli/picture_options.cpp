#include "picture_options.h"

#include <fmt/format.h>

#include "api/plan.h"
#include "numbers.h"

namespace octavo::cli {

EngineOptions to_engine_options(const std::string& command, const PictureArguments& arguments) {
  if (arguments.model && arguments.model->empty())
    throw InvalidArgument(fmt::format("{}: --model is empty; give the folder of a model, or leave it out for the demo model", command));
  EngineOptions options;
  options.model = arguments.model.value_or("");
  options.precision = arguments.precision.value_or("auto");
  options.attention = arguments.attention.value_or("auto");
  options.device = arguments.device.value_or("auto");
  if (arguments.vram) options.vram_bytes = memory_size(command + ": --vram", *arguments.vram);
  return options;
}

Request to_sized_request(const std::string& command, const PictureArguments& arguments) {
  Request request;
  const auto read = [&](const char* option, const std::optional<std::string>& word) {
    return word ? std::optional(to_int(fmt::format("{}: {}", command, option), *word)) : std::nullopt;
  };
  request.width = read("--width", arguments.width);
  request.height = read("--height", arguments.height);
  request.steps = read("--steps", arguments.steps);
  for (const std::string& lora : arguments.loras) request.loras.push_back(to_lora_source((command + ": --lora").c_str(), lora));
  return request;
}

}  // namespace octavo::cli
