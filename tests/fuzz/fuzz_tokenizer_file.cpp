// Any bytes as tokenizer.json: an error of ours, or a tokenizer that spells what it read.
#include "fuzz/check.h"
#include "octavo/error.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using octavo::fuzz::check;
  try {
    const auto tokenizer = octavo::Tokenizer::from_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    const std::string text = "it's <|im_end|> 12\u00e9\n  \u4e16 aab";  // in normal form
    const auto ids = tokenizer.encode(text);
    for (const std::int32_t id : ids) check(id >= 0 && id < tokenizer.vocabulary_size(), "ids lie in the vocabulary");
    tokenizer.decode(ids);
  } catch (const octavo::DataError&) {
  } catch (const octavo::Unsupported&) {
  }
  return 0;
}
