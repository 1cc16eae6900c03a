// What a tokenizer is made of, read from its files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"

namespace octavo {

struct TokenizerDefinition {
  std::string who{};  // the file, for messages
  BpeDefinition bpe{};
  std::vector<AddedToken> added{};
  std::string pattern{};
  bool is_nfc = true;  // the text is normalised first
};

// Errors as Tokenizer's constructor says.
TokenizerDefinition read_tokenizer_folder(const std::filesystem::path& folder);
TokenizerDefinition read_tokenizer_json(std::string_view text, const std::string& who);

}  // namespace octavo
