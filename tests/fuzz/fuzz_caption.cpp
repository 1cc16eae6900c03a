// Any bytes as a caption: checking never throws, compacting is done once and for all.
#include "fuzz/check.h"
#include "octavo/error.h"
#include "text/caption.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using octavo::fuzz::check;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> warnings = octavo::check_caption(text);
  for (const std::string& warning : warnings) check(warning.size() < 1000 && warning.find('\n') == warning.npos, "a warning is one short line");
  std::string compact;
  try {
    compact = octavo::compact_caption(text);
  } catch (const octavo::DataError&) {
    check(warnings.size() == 1, "what is not JSON has one warning");
    return 0;
  }
  check(octavo::compact_caption(compact) == compact, "compacting twice changes nothing");
  if (warnings.empty()) check(octavo::check_caption(compact).empty() && octavo::looks_like_caption(compact), "a good caption stays good when compacted");
  return 0;
}
