// Any bytes as JSON: an error of ours, or a value that is the same after writing and reading it again.
#include <nlohmann/json.hpp>

#include "fuzz/check.h"
#include "io/json.h"
#include "octavo/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using octavo::fuzz::check;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  octavo::Json value;
  try {
    value = octavo::parse_json(text, "fuzz");
  } catch (const octavo::DataError& error) {
    check(std::string_view(error.what()).size() < 600, "a message stays short whatever the text");
    return 0;
  }
  const std::string written = value.dump();
  check(octavo::parse_json(written, "written") == value, "a value survives writing and reading");
  check(octavo::Json::accept(text), "what we accept is JSON to the library as well");
  return 0;
}
