#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <functional>
#include <queue>

#include "io/json.h"
#include "io/utf8.h"
#include "octavo/error.h"

namespace octavo {
namespace {

constexpr std::size_t kShortBytes = 48;  // up to here scanning for the best pair beats a heap

// GPT-2's alphabet: printable Latin-1 stands for itself, the other 68 bytes are U+0100, U+0101, … in order.
constexpr std::array<std::int16_t, 324> make_alphabet() {
  std::array<std::int16_t, 324> byte_of{};
  byte_of.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    byte_of[std::size_t(is_printable ? byte : next++)] = std::int16_t(byte);
  }
  return byte_of;
}
constexpr auto kByteOfCharacter = make_alphabet();

std::uint64_t pair_of(std::int32_t left, std::int32_t right) { return std::uint64_t(std::uint32_t(left)) << 32 | std::uint32_t(right); }

std::size_t hash(std::uint64_t pair) {
  pair *= 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio; the high half is well mixed
  return std::size_t(pair >> 32);
}

// Token text to id: a flat table of places in the vocabulary. std::unordered_map takes twice as long for 150,000 tokens.
class TokenIndex {
 public:
  explicit TokenIndex(const std::vector<std::pair<std::string, std::int32_t>>& vocabulary)
      : vocabulary_(vocabulary), slots_(std::bit_ceil(2 * vocabulary.size() + 1)) {
    for (std::uint32_t i = 0; i < vocabulary.size(); ++i) {
      const std::size_t text_hash = std::hash<std::string_view>()(vocabulary[i].first);
      std::size_t slot = text_hash & (slots_.size() - 1);
      while (slots_[slot].place != 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = {i + 1, std::uint32_t(text_hash >> 32)};
    }
  }
  std::int32_t find(std::string_view text) const {  // -1 if absent
    const std::size_t text_hash = std::hash<std::string_view>()(text);
    for (std::size_t slot = text_hash & (slots_.size() - 1); slots_[slot].place != 0; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].check != std::uint32_t(text_hash >> 32)) continue;
      const auto& [token, id] = vocabulary_[slots_[slot].place - 1];
      if (token == text) return id;
    }
    return -1;
  }

 private:
  struct Slot {
    std::uint32_t place = 0;  // in the vocabulary, from 1; 0: free
    std::uint32_t check = 0;  // the other half of the hash
  };
  const std::vector<std::pair<std::string, std::int32_t>>& vocabulary_;
  std::vector<Slot> slots_;
};

}  // namespace

std::string bytes_of_token(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const char32_t character = next_code_point(token, at);
    if (character >= kByteOfCharacter.size() || kByteOfCharacter[character] < 0) return std::string(token);
    bytes += char(kByteOfCharacter[character]);
  }
  return bytes;
}

Bpe::Bpe(const BpeDefinition& definition, const std::string& who) {
  std::int32_t largest = -1;
  for (const auto& [token, id] : definition.vocabulary) {
    if (id < 0 || id > kMaxTokenId) throw DataError(fmt::format("{}: token '{}' has the id {}; ids go from 0 to {}", who, excerpt(token), id, kMaxTokenId));
    largest = std::max(largest, id);
  }
  tokens_.resize(std::size_t(largest) + 1);
  std::vector<bool> is_taken(tokens_.size());
  std::fill(std::begin(byte_ids_), std::end(byte_ids_), -1);
  for (const auto& [token, id] : definition.vocabulary) {
    if (is_taken[std::size_t(id)])
      throw DataError(fmt::format("{}: two tokens have the id {}, one of them '{}'; the file is damaged", who, id, excerpt(token)));
    is_taken[std::size_t(id)] = true;
    std::size_t at = 0;
    const char32_t first = token.empty() ? 0 : next_code_point(token, at);
    const bool is_byte = at == token.size() && first < kByteOfCharacter.size() && kByteOfCharacter[first] >= 0;
    if (is_byte) byte_ids_[kByteOfCharacter[first]] = id;
    tokens_[std::size_t(id)] = bytes_of_token(token);
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (byte_ids_[byte] < 0) {
      throw DataError(fmt::format(
          "{}: the vocabulary has no token for the byte 0x{:02x}, so some texts could not be written; it is not byte-level or is damaged", who, byte));
    }
  }
  build_merges(definition, who);
  if (definition.ignore_merges) {
    for (const auto& [token, id] : definition.vocabulary) by_bytes_.push_back(id);
    std::sort(by_bytes_.begin(), by_bytes_.end(), [&](std::int32_t a, std::int32_t b) { return tokens_[std::size_t(a)] < tokens_[std::size_t(b)]; });
  }
}

void Bpe::build_merges(const BpeDefinition& definition, const std::string& who) {
  const TokenIndex ids(definition.vocabulary);
  merges_.resize(std::bit_ceil(2 * definition.merges.size() + 1));
  std::string joined;
  std::int32_t rank = 0;
  for (const auto& [left, right] : definition.merges) {
    joined.assign(left).append(right);
    const std::int32_t left_id = ids.find(left), right_id = ids.find(right), joined_id = ids.find(joined);
    if (left_id < 0 || right_id < 0 || joined_id < 0) {
      throw DataError(fmt::format("{}: merge {} ('{}' + '{}') names a token that the vocabulary lacks; vocabulary and merges are not of one tokenizer", who,
                                  rank, excerpt(left), excerpt(right)));
    }
    const Merge merge{pair_of(left_id, right_id), rank++, joined_id};
    std::size_t slot = hash(merge.pair) & (merges_.size() - 1);
    while (merges_[slot].pair != kNoPair && merges_[slot].pair != merge.pair) slot = (slot + 1) & (merges_.size() - 1);
    merges_[slot] = merge;  // a pair listed twice has its last rank, as in the reference
  }
}

const Bpe::Merge* Bpe::find_merge(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t slot = hash(pair) & (merges_.size() - 1);; slot = (slot + 1) & (merges_.size() - 1)) {
    if (merges_[slot].pair == pair) return &merges_[slot];
    if (merges_[slot].pair == kNoPair) return nullptr;
  }
}

std::int32_t Bpe::whole_token(std::string_view piece) const {
  const auto found =
      std::lower_bound(by_bytes_.begin(), by_bytes_.end(), piece, [&](std::int32_t id, std::string_view bytes) { return tokens_[std::size_t(id)] < bytes; });
  return found != by_bytes_.end() && tokens_[std::size_t(*found)] == piece ? *found : -1;
}

void Bpe::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (piece.size() == 1) {
    ids.push_back(byte_ids_[static_cast<unsigned char>(piece[0])]);
  } else if (const std::int32_t whole = by_bytes_.empty() ? -1 : whole_token(piece); whole >= 0) {
    ids.push_back(whole);
  } else if (piece.size() <= kShortBytes) {
    encode_short(piece, ids);
  } else {
    encode_long(piece, ids);
  }
}

void Bpe::encode_short(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::int32_t id[kShortBytes];
  const Merge* merge[kShortBytes];  // of symbol i with symbol i + 1
  std::size_t count = piece.size();
  for (std::size_t i = 0; i < count; ++i) id[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  for (std::size_t i = 0; i + 1 < count; ++i) merge[i] = find_merge(id[i], id[i + 1]);
  for (;;) {
    std::size_t best = count;
    for (std::size_t i = 0; i + 1 < count; ++i) {
      if (merge[i] != nullptr && (best == count || merge[i]->rank < merge[best]->rank)) best = i;  // of equal ranks the leftmost
    }
    if (best == count) break;
    id[best] = merge[best]->merged;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) {
      id[i] = id[i + 1];
      merge[i] = i + 1 < count ? merge[i + 1] : nullptr;
    }
    if (best > 0) merge[best - 1] = find_merge(id[best - 1], id[best]);
    if (best + 1 < count) merge[best] = find_merge(id[best], id[best + 1]);
  }
  ids.insert(ids.end(), id, id + count);
}

void Bpe::encode_long(std::string_view piece, std::vector<std::int32_t>& ids) const {
  struct Symbol {
    std::int32_t id;
    std::int32_t previous;  // -1: none
    std::int32_t next;      // -1: none
  };
  struct Candidate {
    std::int32_t rank;
    std::int32_t at;  // of the left symbol
    const Merge* merge;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  const auto count = std::int32_t(piece.size());
  std::vector<Symbol> symbols(piece.size());
  for (std::int32_t i = 0; i < count; ++i)
    symbols[std::size_t(i)] = {byte_ids_[static_cast<unsigned char>(piece[std::size_t(i)])], i - 1, i + 1 < count ? i + 1 : -1};

  std::vector<Candidate> candidates;
  const auto candidate_at = [&](std::int32_t at) {
    const Symbol& left = symbols[std::size_t(at)];
    const Merge* merge = left.next < 0 ? nullptr : find_merge(left.id, symbols[std::size_t(left.next)].id);
    return Candidate{merge == nullptr ? 0 : merge->rank, at, merge};
  };
  for (std::int32_t i = 0; i < count; ++i) {
    if (const Candidate candidate = candidate_at(i); candidate.merge != nullptr) candidates.push_back(candidate);
  }
  std::priority_queue queue(std::greater<>(), std::move(candidates));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[std::size_t(best.at)];
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = symbols[std::size_t(left.next)];
    if (best.merge->pair != pair_of(left.id, right.id)) continue;  // an earlier merge took one of the two
    left.id = best.merge->merged;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[std::size_t(left.next)].previous = best.at;
    for (const std::int32_t at : {best.at, left.previous}) {
      if (at < 0) continue;
      if (const Candidate candidate = candidate_at(at); candidate.merge != nullptr) queue.push(candidate);
    }
  }
  for (std::int32_t i = 0; i >= 0; i = symbols[std::size_t(i)].next) ids.push_back(symbols[std::size_t(i)].id);
}

}  // namespace octavo
