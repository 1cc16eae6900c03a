#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "io/utf8.h"
#include "octavo/error.h"

namespace octavo {
namespace {

// The 256 bytes in GPT-2's alphabet, byte b with id b.
BpeDefinition bytes_only() {
  BpeDefinition definition;
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    append_utf8(token, (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174 ? char32_t(byte) : next++);
    definition.vocabulary.emplace_back(token, byte);
  }
  return definition;
}

void add_merge(BpeDefinition& definition, const std::string& left, const std::string& right) {
  definition.vocabulary.emplace_back(left + right, std::int32_t(definition.vocabulary.size()));
  definition.merges.emplace_back(left, right);
}

std::vector<std::int32_t> encode(const Bpe& bpe, std::string_view piece) {
  std::vector<std::int32_t> ids;
  bpe.encode(piece, ids);
  return ids;
}

// The definition: among all neighbours join the pair of lowest rank, leftmost first, until none is left.
std::vector<std::int32_t> plain_encode(const BpeDefinition& definition, std::string_view piece) {
  std::map<std::string, std::int32_t> ids(definition.vocabulary.begin(), definition.vocabulary.end());
  std::vector<std::string> symbols;
  for (const char c : piece) symbols.push_back(definition.vocabulary[static_cast<unsigned char>(c)].first);
  for (;;) {
    std::size_t best_at = symbols.size(), best_rank = definition.merges.size();
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        if (definition.merges[rank] == std::pair(symbols[i], symbols[i + 1])) best_at = i, best_rank = rank;
      }
    }
    if (best_at == symbols.size()) break;
    symbols[best_at] += symbols[best_at + 1];
    symbols.erase(symbols.begin() + std::ptrdiff_t(best_at) + 1);
  }
  std::vector<std::int32_t> found;
  for (const std::string& symbol : symbols) found.push_back(ids.at(symbol));
  return found;
}

TEST(BpeLaws, equals_the_definition_for_short_and_long_pieces) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    BpeDefinition definition = bytes_only();
    std::vector<std::string> symbols = {"a", "b", "c"};
    for (int i = 0; i < 12; ++i) {
      const std::string left = symbols[random() % symbols.size()], right = symbols[random() % symbols.size()];
      if (std::find(symbols.begin(), symbols.end(), left + right) != symbols.end()) continue;
      add_merge(definition, left, right);
      symbols.push_back(left + right);
    }
    std::shuffle(definition.merges.begin(), definition.merges.end(), random);  // parts may be learnt after the whole, too
    const Bpe bpe(definition, "test");
    for (const std::size_t length : {2u, 3u, 5u, 17u, 47u, 48u, 49u, 50u, 200u}) {  // 48 is where the heap takes over
      std::string piece;
      for (std::size_t i = 0; i < length; ++i) piece += char('a' + random() % 3);
      ASSERT_EQ(encode(bpe, piece), plain_encode(definition, piece)) << piece;
    }
  }
}

TEST(BpeLaws, tokens_of_a_piece_spell_the_piece) {
  BpeDefinition definition = bytes_only();
  add_merge(definition, "a", "a");
  add_merge(definition, "aa", "aa");
  const Bpe bpe(definition, "test");
  std::mt19937 random(12);
  for (std::size_t length = 1; length < 120; ++length) {
    std::string piece, spelled;
    for (std::size_t i = 0; i < length; ++i) piece += random() % 2 == 0 ? 'a' : char(random());
    for (const std::int32_t id : encode(bpe, piece)) spelled += bpe.tokens()[std::size_t(id)];
    ASSERT_EQ(spelled, piece);
  }
}

TEST(Bpe, equal_ranks_go_from_the_left) {
  BpeDefinition definition = bytes_only();
  add_merge(definition, "a", "a");
  const Bpe bpe(definition, "test");
  EXPECT_EQ(encode(bpe, "aaa"), (std::vector<std::int32_t>{256, 'a'}));
  std::vector<std::int32_t> expected(30, 256);
  expected.push_back('a');
  EXPECT_EQ(encode(bpe, std::string(61, 'a')), expected);
}

TEST(Bpe, whole_token_without_merges_counts_only_if_merges_are_ignored) {
  BpeDefinition definition = bytes_only();
  definition.vocabulary.emplace_back("xyz", 256);
  EXPECT_EQ(encode(Bpe(definition, "test"), "xyz"), (std::vector<std::int32_t>{'x', 'y', 'z'}));
  definition.ignore_merges = true;
  EXPECT_EQ(encode(Bpe(definition, "test"), "xyz"), (std::vector<std::int32_t>{256}));
  EXPECT_EQ(encode(Bpe(definition, "test"), "xy"), (std::vector<std::int32_t>{'x', 'y'}));
}

TEST(Bpe, pair_listed_twice_has_its_last_rank) {
  BpeDefinition definition = bytes_only();
  add_merge(definition, "a", "b");
  add_merge(definition, "b", "c");
  definition.merges.emplace_back("a", "b");
  EXPECT_EQ(encode(Bpe(definition, "test"), "abc"), (std::vector<std::int32_t>{'a', 257}));
}

TEST(Bpe, empty_piece_and_single_bytes) {
  const Bpe bpe(bytes_only(), "test");
  EXPECT_TRUE(encode(bpe, "").empty());
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(encode(bpe, std::string(1, char(byte))), (std::vector<std::int32_t>{byte}));
    EXPECT_EQ(bpe.tokens()[std::size_t(byte)], std::string(1, char(byte)));
  }
}

TEST(Bpe, definitions_that_contradict_themselves) {
  BpeDefinition lacks_a_byte = bytes_only();
  lacks_a_byte.vocabulary.erase(lacks_a_byte.vocabulary.begin() + 0x41);
  EXPECT_THROW(Bpe(lacks_a_byte, "test"), DataError);
  BpeDefinition unknown_merge = bytes_only();
  unknown_merge.merges.emplace_back("a", "b");
  EXPECT_THROW(Bpe(unknown_merge, "test"), DataError);
  BpeDefinition same_id = bytes_only();
  same_id.vocabulary.emplace_back("ab", 7);
  EXPECT_THROW(Bpe(same_id, "test"), DataError);
  BpeDefinition negative = bytes_only();
  negative.vocabulary.emplace_back("ab", -1);
  EXPECT_THROW(Bpe(negative, "test"), DataError);
  BpeDefinition huge = bytes_only();
  huge.vocabulary.emplace_back("ab", kMaxTokenId + 1);
  EXPECT_THROW(Bpe(huge, "test"), DataError);
  EXPECT_THROW(Bpe(BpeDefinition{}, "test"), DataError);
}

TEST(Bpe, token_outside_the_alphabet_stands_for_itself) {
  EXPECT_EQ(bytes_of_token("Ġa"), " a");
  EXPECT_EQ(bytes_of_token("Ċ"), "\n");
  EXPECT_EQ(bytes_of_token("世Ġ"), "世Ġ");
}

}  // namespace
}  // namespace octavo
