#include "text/tokenizer.h"

#include <fmt/format.h>

#include <unordered_map>

#include "octavo/error.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/nfc.h"
#include "text/split_pattern.h"
#include "text/tokenizer_file.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxTextBytes = 64u << 20;
constexpr std::size_t kMaxCachedPieceBytes = 64;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

std::vector<AddedToken> select(const std::vector<AddedToken>& tokens, bool is_normalized, bool is_nfc) {
  std::vector<AddedToken> selected;
  for (AddedToken token : tokens) {
    if (token.is_normalized != is_normalized) continue;
    if (is_normalized && is_nfc) token.content = to_nfc(token.content);
    selected.push_back(std::move(token));
  }
  return selected;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(const TokenizerDefinition& definition)
      : is_nfc(definition.is_nfc),
        bpe(definition.bpe, definition.who),
        pattern(definition.pattern, definition.who),
        raw_added(select(definition.added, false, is_nfc)),
        normalized_added(select(definition.added, true, is_nfc)),
        tokens(bpe.tokens()) {
    for (const AddedToken& token : definition.added) {
      if (std::size_t(token.id) >= tokens.size()) tokens.resize(std::size_t(token.id) + 1);
      tokens[std::size_t(token.id)] = token.content;
    }
  }

  bool is_nfc;
  Bpe bpe;
  SplitPattern pattern;
  AddedTokens raw_added;
  AddedTokens normalized_added;
  std::vector<std::string> tokens;  // bytes by id
};

namespace {

// One call of encode: the ids so far, and where in them each short piece was first written. Texts repeat their words, so most pieces
// are copied from there.
struct Encoding {
  const Bpe& bpe;
  std::vector<std::int32_t> ids{};
  std::unordered_map<std::string, std::pair<std::size_t, std::size_t>, TextHash, std::equal_to<>> first_at{};

  void add(std::string_view piece) {
    if (piece.size() == 1 || piece.size() > kMaxCachedPieceBytes) return bpe.encode(piece, ids);
    if (const auto found = first_at.find(piece); found != first_at.end()) {
      const auto [begin, count] = found->second;
      for (std::size_t i = 0; i < count; ++i) ids.push_back(ids[begin + i]);
      return;
    }
    const std::size_t begin = ids.size();
    bpe.encode(piece, ids);
    first_at.emplace(piece, std::pair(begin, ids.size() - begin));
  }
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(const std::filesystem::path& folder) : Tokenizer(std::make_unique<Impl>(read_tokenizer_folder(folder))) {}
Tokenizer Tokenizer::from_json(std::string_view text, const std::string& who) { return Tokenizer(std::make_unique<Impl>(read_tokenizer_json(text, who))); }
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  if (text.size() > kMaxTextBytes)
    throw InvalidArgument(fmt::format("prompt: has {} bytes, more than the {} that are read; shorten it", text.size(), kMaxTextBytes));
  if (const std::size_t bad = first_invalid_byte(text); bad != text.npos) {
    throw InvalidArgument(fmt::format("prompt: byte {} is 0x{:02x}, {}; save the text as UTF-8", bad, static_cast<unsigned char>(text[bad]),
                                      text[bad] == '\0' ? "which ends a text" : "which is not valid UTF-8 there"));
  }
  Encoding encoding{impl_->bpe};
  const auto add_pieces = [&](std::string_view part, std::int32_t id) {
    if (id >= 0) return encoding.ids.push_back(id);
    impl_->pattern.for_each_piece(part, [&](std::string_view piece) { encoding.add(piece); });
  };
  impl_->raw_added.for_each_part(text, [&](std::string_view part, std::int32_t id) {
    if (id >= 0) return encoding.ids.push_back(id);
    impl_->normalized_added.for_each_part(impl_->is_nfc ? to_nfc(part) : std::string(part), add_pieces);
  });
  return std::move(encoding.ids);
}

std::string Tokenizer::decode(const std::vector<std::int32_t>& ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < 0 || std::size_t(id) >= impl_->tokens.size()) {
      throw InvalidArgument(fmt::format("tokenizer: there is no token {}; ids go from 0 to {}", id, impl_->tokens.size() - 1));
    }
    text += impl_->tokens[std::size_t(id)];
  }
  return text;
}

std::int64_t Tokenizer::vocabulary_size() const { return std::int64_t(impl_->tokens.size()); }

std::string chat_prompt(std::string_view user_text) { return fmt::format("<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n", user_text); }

}  // namespace octavo
