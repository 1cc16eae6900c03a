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

// Throws DataError "<who>: is not JSON (<reason> at byte N)" or on nesting deeper than kMaxJsonDepth.
Json parse_json(std::string_view text, const std::string& who);
// Reads and parses a file. Throws InvalidArgument if missing, DataError if empty or not JSON.
Json read_json(const std::filesystem::path& path);

}  // namespace octavo
