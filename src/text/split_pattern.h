// The regular expression that cuts text into pieces before merging.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace octavo {

// Matches become pieces, and so does what lies between two matches ("isolated").
class SplitPattern {
 public:
  // Throws DataError, with the place, if the pattern is not a regular expression.
  SplitPattern(const std::string& pattern, const std::string& who);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;

  // Calls `piece` for every piece of valid UTF-8, in order; together they are the text.
  // Throws DataError if a match would take longer than anybody waits (a catastrophic pattern).
  void for_each_piece(std::string_view text, const std::function<void(std::string_view)>& piece) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
