// JSON with bounds, errors that name the file, and key order kept. Include <nlohmann/json.hpp> only in .cpp files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace octavo {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kMaxJsonBytes = 256u << 20;  // tokenizer.json of large vocabularies is about 20 MB
inline constexpr int kMaxJsonDepth = 64;

// Parses one JSON value, with only white space after it.
// Throws DataError "<who>: is not JSON (<reason> at byte N)", also on nesting deeper than kMaxJsonDepth, on more than kMaxJsonBytes,
// and on an object that names a key twice (the standard leaves its meaning open; readers disagree, so nobody may rely on it).
// N counts from 0. Time is linear in the text, whatever the text.
Json parse_json(std::string_view text, const std::string& who);
// Reads and parses a file. Throws InvalidArgument if missing, DataError if empty or not JSON.
Json read_json(const std::filesystem::path& path);

// Part of a foreign text, fit for an error message: at most `max_bytes`, control characters shown as '?', cut marked by "…".
std::string excerpt(std::string_view text, std::size_t max_bytes = 80);

}  // namespace octavo
