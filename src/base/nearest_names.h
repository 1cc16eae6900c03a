// For messages about a name that nobody knows: which known ones are most like it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo {

// Up to `count` of `names` that are most like `word`, by edit distance; the alphabet decides between equals.
std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> names, std::size_t count);

}  // namespace octavo
