// Any bytes as a prompt, with the tokenizer of a tiny golden model.
#include "fuzz/check.h"
#include "octavo/error.h"
#include "text/nfc.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using octavo::fuzz::check;
  static const octavo::Tokenizer tokenizer(std::filesystem::path(OCTAVO_SOURCE_DIR) / "tests/golden/data/tiny-hd64/tokenizer");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::int32_t> ids;
  try {
    ids = tokenizer.encode(text);
  } catch (const octavo::InvalidArgument&) {
    check(octavo::first_invalid_byte(text) != text.npos, "only invalid text is refused");
    return 0;
  }
  for (const std::int32_t id : ids) check(id >= 0 && id < tokenizer.vocabulary_size(), "ids lie in the vocabulary");
  const std::string spelled = tokenizer.decode(ids);
  check(octavo::first_invalid_byte(spelled) == spelled.npos, "tokens spell valid UTF-8");
  if (text.find("<|") == text.npos) check(spelled == octavo::to_nfc(text), "tokens spell the normalised text");
  check(tokenizer.encode(spelled) == ids, "normalised text has the same tokens");
  return 0;
}
