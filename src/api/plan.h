// `octavo plan`: what would lie where on a GPU while a picture is drawn, and how much memory that takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/describe.h"
#include "octavo/request.h"
#include "octavo/version.h"

namespace octavo {

struct PlanOptions {
  std::string model{};             // folder; empty: the demo model
  std::string precision = "auto";  // auto: as generate takes it on a GPU
  std::string device = "auto";     // whose free memory is the budget if none is given: auto (the first GPU, if there is one), cuda, cuda:N
  std::optional<int> width{}, height{}, steps{};
  std::int64_t text_tokens = 512;  // of the prompt, with the chat template
  std::optional<std::int64_t> vram_bytes{};
  std::vector<LoraSource> loras{};
};

// Reads configurations and headers, no weights; needs no GPU if a budget is given, and without both plans for one that holds everything.
// Throws OutOfMemory if nothing fits, InvalidArgument as generate does.
OCTAVO_API std::string describe_plan(const PlanOptions& options, Format format);

// "12GB", "11.5GiB", "800MB". Throws InvalidArgument naming `option`.
OCTAVO_API std::int64_t memory_size(std::string_view option, const std::string& text);

}  // namespace octavo
