// UTF-8 as the Unicode standard defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace octavo {

// Byte offset of the first byte that is not part of valid UTF-8 or is NUL; npos if there is none. A cut-off sequence is reported at its start.
std::size_t first_invalid_byte(std::string_view text);

// The code point that starts at `at`, which moves past it. The text must be valid.
char32_t next_code_point(std::string_view text, std::size_t& at);

// Appends the code point as UTF-8. It must not be a surrogate or above U+10FFFF.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace octavo
