// The options that drawing a picture and planning it have in common.
#pragma once

#include <string>

#include "arguments.h"
#include "octavo/engine.h"

namespace octavo::cli {

// `command` is named in messages: "generate", "plan". Throw InvalidArgument.
EngineOptions to_engine_options(const std::string& command, const PictureArguments& arguments);  // model, precision, attention, device, vram
Request to_sized_request(const std::string& command, const PictureArguments& arguments);         // width, height, steps, LoRAs

}  // namespace octavo::cli
