// Byte-pair encoding: bytes joined pair by pair, the pair learnt first goes first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octavo {

inline constexpr std::int32_t kMaxTokenId = (1 << 22) - 1;  // bounds what a damaged file can make us allocate

// As in the files: every byte of a token is written as one printable character (GPT-2's alphabet).
struct BpeDefinition {
  std::vector<std::pair<std::string, std::int32_t>> vocabulary{};
  std::vector<std::pair<std::string, std::string>> merges{};  // first learnt first
  bool ignore_merges = false;                                 // a piece that is a token as it stands is not merged
};

class Bpe {
 public:
  // Throws DataError: a byte without a token, a merge of unknown tokens, two tokens with one id, an id out of range.
  Bpe(const BpeDefinition& definition, const std::string& who);

  // Appends the tokens of one piece. O(n log n) in its bytes.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

  // The bytes of every token by id; absent ids are empty.
  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  struct Merge {
    std::uint64_t pair = kNoPair;  // left id, right id
    std::int32_t rank = 0;
    std::int32_t merged = 0;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

  void build_merges(const BpeDefinition& definition, const std::string& who);
  const Merge* find_merge(std::int32_t left, std::int32_t right) const;
  std::int32_t whole_token(std::string_view piece) const;  // -1 if there is none
  void encode_short(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void encode_long(std::string_view piece, std::vector<std::int32_t>& ids) const;

  std::vector<std::string> tokens_{};
  std::int32_t byte_ids_[256] = {};
  std::vector<Merge> merges_{};           // open addressing, a power of two, at most half full
  std::vector<std::int32_t> by_bytes_{};  // ids ordered by their bytes; only if merges can be ignored
};

// The bytes that a token of the files stands for. A token with a character outside the alphabet stands for its own UTF-8.
std::string bytes_of_token(std::string_view token);

}  // namespace octavo
