// Byte-level BPE as Qwen2/Qwen3 use it: NFC, special tokens, the split pattern, merges by rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace octavo {

class Tokenizer {
 public:
  // Reads `tokenizer.json`, or `vocab.json` + `merges.txt` (+ `tokenizer_config.json` for the added tokens), from the folder.
  // Throws InvalidArgument if they are missing, DataError if they are not what they claim to be.
  explicit Tokenizer(const std::filesystem::path& folder);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  // Throws InvalidArgument, with the byte offset, on invalid UTF-8 or NUL.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // Token ids back to bytes (special tokens as their text).
  std::string decode(const std::vector<std::int32_t>& ids) const;
  std::int64_t vocabulary_size() const;  // largest id + 1

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One user turn with the generation prompt:  <|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n
std::string chat_prompt(std::string_view user_text);

// Byte offset of the first byte that is not valid UTF-8 or is NUL; npos if there is none.
std::size_t first_invalid_byte(std::string_view text);

}  // namespace octavo
