#include "io/utf8.h"

namespace octavo {

std::size_t first_invalid_byte(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t at = 0;
  while (at < text.size()) {
    const unsigned lead = byte(at);
    if (lead < 0x80) {
      if (lead == 0) return at;
      ++at;
      continue;
    }
    // Unicode standard, table 3-7: the second byte's range depends on the first, the others are 80..BF
    std::size_t length = 0;
    unsigned low = 0x80, high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
      length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      length = 3;
      if (lead == 0xe0) low = 0xa0;   // overlong
      if (lead == 0xed) high = 0x9f;  // surrogates
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      length = 4;
      if (lead == 0xf0) low = 0x90;   // overlong
      if (lead == 0xf4) high = 0x8f;  // above U+10FFFF
    } else {
      return at;
    }
    if (length > text.size() - at || byte(at + 1) < low || byte(at + 1) > high) return at;
    for (std::size_t i = 2; i < length; ++i) {
      if ((byte(at + i) & 0xc0u) != 0x80u) return at;
    }
    at += length;
  }
  return std::string_view::npos;
}

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return char32_t(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(at);
  if (lead < 0x80) return ++at, lead;
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  char32_t code_point = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) code_point = (code_point << 6) | (byte(at + i) & 0x3fu);
  at += length;
  return code_point;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto tail = [&](int shift) { text += char(0x80 | ((code_point >> shift) & 0x3f)); };
  if (code_point < 0x80) {
    text += char(code_point);
  } else if (code_point < 0x800) {
    text += char(0xc0 | (code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    text += char(0xe0 | (code_point >> 12));
    tail(6);
    tail(0);
  } else {
    text += char(0xf0 | (code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace octavo
