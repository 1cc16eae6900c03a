// Byte-level BPE as Qwen2/Qwen3 use it: NFC, special tokens, the split pattern, merges by rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/utf8.h"  // first_invalid_byte, which callers use to check a prompt early

namespace octavo {

class Tokenizer {
 public:
  // Reads `tokenizer.json`, or `vocab.json` + `merges.txt` (the added tokens from `tokenizer_config.json` or `added_tokens.json`), from the folder.
  // Throws InvalidArgument if they are missing, DataError if they are not what they claim to be, Unsupported if they describe another
  // kind of tokenizer than byte-level BPE after a split pattern.
  explicit Tokenizer(const std::filesystem::path& folder);
  // The same from the text of a `tokenizer.json`.
  static Tokenizer from_json(std::string_view text, const std::string& who);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  // Added tokens are found anywhere, longest first; the rest is normalised, split and merged. Throws InvalidArgument, with the byte offset, on
  // invalid UTF-8 or NUL, and on more than 64 MiB. May be called from several threads. Time is near linear, also in one endless word.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // Token ids back to bytes (special tokens as their text).
  std::string decode(const std::vector<std::int32_t>& ids) const;
  std::int64_t vocabulary_size() const;  // largest id + 1

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One user turn with the generation prompt:  <|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n
std::string chat_prompt(std::string_view user_text);

}  // namespace octavo
