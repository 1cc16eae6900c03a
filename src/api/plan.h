// `octavo plan`: what would lie where on a GPU while a picture is drawn, and how much memory that takes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/describe.h"
#include "octavo/engine.h"
#include "octavo/version.h"

namespace octavo {

inline constexpr int kPlannedTextTokens = 512;  // a long caption with the chat template

// What generate would do with a GPU, from configurations and headers: no weights are read. Of `options` model, precision, attention, device and vram_bytes
// are looked at, of `request` size, steps and LoRAs. Needs no GPU if a budget is given; without both plans for one that holds everything.
// Throws OutOfMemory if nothing fits, InvalidArgument as generate does.
OCTAVO_API std::string describe_plan(const EngineOptions& options, const Request& request, std::int64_t text_tokens, Format format);

// "12GB", "11.5GiB", "800MB". Throws InvalidArgument naming `option`.
OCTAVO_API std::int64_t memory_size(std::string_view option, const std::string& text);

}  // namespace octavo
