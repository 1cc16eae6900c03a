#include "text/split_pattern.h"

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "io/json.h"
#include "io/utf8.h"
#include "octavo/error.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxPatternBytes = 16384;
// Backtracking steps within one match. A sound pattern needs about one per character; a bad one ends after roughly a second.
constexpr std::uint32_t kMaxSteps = 100'000'000;
constexpr std::uint32_t kMaxHeapKibibytes = 256 * 1024;
constexpr std::size_t kJitStackBytes = 32u << 20;  // reserved, not used until needed

// PCRE2 10.42 knows Unicode 14. Letters and digits that came later (rare scripts, CJK extensions H and I) count as signs here, while newer
// tokenizers join them as words; checked against one over all code points, that is the only difference. A newer PCRE2 mends it.
// Tokenizers are trained with \s as the Unicode property White_Space. PCRE2's \s adds U+180E, so the set is spelled out.
constexpr std::string_view kWhiteSpace = R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

std::string with_unicode_white_space(std::string_view pattern) {
  std::string rewritten;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        rewritten += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
      } else if (escaped == 'S' && !in_class) {
        rewritten += fmt::format("[^{}]", kWhiteSpace);
      } else {
        rewritten += {c, escaped};
      }
      continue;
    }
    rewritten += c;
    if (!in_class && c == '[') {
      in_class = true;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') rewritten += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') rewritten += pattern[++i];  // first in a class, it stands for itself
    } else if (in_class && c == ']') {
      in_class = false;
    }
  }
  return rewritten;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[128] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

template <auto free_it>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    free_it(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Freer<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>>;

}  // namespace

struct SplitPattern::Impl {
  Code code{};
  std::string who{};
};

SplitPattern::SplitPattern(const std::string& pattern, const std::string& who) : impl_(std::make_unique<Impl>()) {
  impl_->who = who;
  if (pattern.size() > kMaxPatternBytes)
    throw DataError(fmt::format("{}: the split pattern has {} bytes, more than {}", who, pattern.size(), kMaxPatternBytes));
  const std::string rewritten = with_unicode_white_space(pattern);
  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  const std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  impl_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(), options, &error, &at, context.get()));
  if (!impl_->code)
    throw DataError(fmt::format("{}: the split pattern '{}' is not a regular expression ({} at byte {})", who, excerpt(rewritten), message_of(error), at));
  pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE);  // where the system forbids it, the interpreter does the same, slower
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;

void SplitPattern::for_each_piece(std::string_view text, const std::function<void(std::string_view)>& piece) const {
  const MatchContext context(pcre2_match_context_create(nullptr));
  const MatchData match(pcre2_match_data_create(1, nullptr));
  if (!context || !match) throw OutOfMemory("tokenizer: no memory for matching the split pattern");
  pcre2_set_match_limit(context.get(), kMaxSteps);
  pcre2_set_heap_limit(context.get(), kMaxHeapKibibytes);
  JitStack stack;  // beyond the 32 KiB that come for free; hardly any text needs it
  const auto match_from = [&](std::size_t at, std::uint32_t options) {
    return pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, PCRE2_NO_UTF_CHECK | options, match.get(), context.get());
  };
  std::size_t done = 0;    // everything before is given out
  std::size_t search = 0;  // where the next match may begin
  while (search < text.size()) {
    int found = match_from(search, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !stack) {
      stack.reset(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr));
      if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      found = match_from(search, 0);
    }
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match_from(search, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      throw DataError(fmt::format("{}: the split pattern fails on this text at byte {} ({}); the pattern is at fault, not the text", impl_->who, search,
                                  message_of(found)));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    std::size_t begin = range[0], end = range[1];
    if (begin < done || end < begin) begin = end = std::max(done, search);  // \K in a look-around can do this
    if (begin > done) piece(text.substr(done, begin - done));
    if (end > begin) piece(text.substr(begin, end - begin));
    done = search = end;
    if (end == begin) next_code_point(text, search);  // an empty match splits, but must not stop us
  }
  if (done < text.size()) piece(text.substr(done));
}

}  // namespace octavo
