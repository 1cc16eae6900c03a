// JSON captions: what the verifier of the model's publishers would say, and the compact form the model reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace octavo {

// True if the text looks like a JSON object (first non-space byte is '{').
bool looks_like_caption(std::string_view text);

// The warnings of spec section 11.2, in the order found; empty: nothing to say. Never throws.
std::vector<std::string> check_caption(std::string_view text);

// The compact serialisation (separators "," and ":", no spaces, key order kept, non-ASCII literal). Throws DataError if not JSON.
std::string compact_caption(std::string_view text);

}  // namespace octavo
