// Tokens that are found in the text as they stand, before anything else happens to it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace octavo {

struct AddedToken {
  std::string content{};
  std::int32_t id = 0;
  bool is_single_word = false;  // only where no word character touches it
  bool strips_left = false;     // takes the white space before it along
  bool strips_right = false;    // … and after it
  bool is_normalized = false;   // looked for in the normalised text instead
};

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Cuts the text at every token, leftmost first and longest of those that begin together. Calls `visit(part, id)` in order; id is -1 for the
  // text between tokens, which is never empty.
  void for_each_part(std::string_view text, const std::function<void(std::string_view, std::int32_t)>& visit) const;
  bool empty() const { return tokens_.empty(); }

 private:
  const AddedToken* longest_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_{};                                  // by first byte, longest first
  std::array<std::pair<std::uint32_t, std::uint32_t>, 256> range_{};  // of `tokens_`, by first byte
};

}  // namespace octavo
