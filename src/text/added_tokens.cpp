#include "text/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "io/utf8.h"

namespace octavo {
namespace {

unsigned char first_byte(const std::string& text) { return static_cast<unsigned char>(text.front()); }

// What \w means in Unicode: alphabetic, mark, decimal digit, connector punctuation, the two joiners.
bool is_word_character(char32_t c) {
  if (c == 0x200c || c == 0x200d) return true;
  switch (utf8proc_category(utf8proc_int32_t(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

// The Unicode property White_Space.
bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

// Start of the code point that ends before `end`.
std::size_t previous_start(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u);
  return end;
}

bool word_ends_at(std::string_view text, std::size_t end) {
  if (end == 0) return false;
  std::size_t at = previous_start(text, end);
  return is_word_character(next_code_point(text, at));
}

bool word_starts_at(std::string_view text, std::size_t at) { return at < text.size() && is_word_character(next_code_point(text, at)); }

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    if (first_byte(a.content) != first_byte(b.content)) return first_byte(a.content) < first_byte(b.content);
    return a.content.size() > b.content.size();
  });
  for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
    auto& [begin, end] = range_[first_byte(tokens_[i].content)];
    if (end == 0) begin = i;
    end = i + 1;
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  const auto [begin, end] = range_[static_cast<unsigned char>(text[at])];
  for (std::uint32_t i = begin; i < end; ++i) {
    if (text.substr(at).starts_with(tokens_[i].content)) return &tokens_[i];
  }
  return nullptr;
}

void AddedTokens::for_each_part(std::string_view text, const std::function<void(std::string_view, std::int32_t)>& visit) const {
  std::size_t done = 0;  // everything before is given out
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = longest_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->is_single_word && (word_ends_at(text, begin) || word_starts_at(text, end))) continue;
    if (token->strips_left) {
      while (begin > done) {
        const std::size_t before = previous_start(text, begin);
        std::size_t after = before;
        if (before < done || !is_white_space(next_code_point(text, after))) break;
        begin = before;
      }
    }
    if (token->strips_right) {
      while (end < text.size()) {
        std::size_t after = end;
        if (!is_white_space(next_code_point(text, after))) break;
        end = after;
      }
      at = end;
    }
    if (begin > done) visit(text.substr(done, begin - done), -1);
    visit(text.substr(begin, end - begin), token->id);
    done = end;
  }
  if (done < text.size()) visit(text.substr(done), -1);
}

}  // namespace octavo
