#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "io/utf8.h"
#include "octavo/error.h"

namespace octavo {
namespace {

// Nothing below U+0300 decomposes in a way that composition does not undo, nor combines with what stands before it.
bool is_surely_nfc(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xcc; });  // 0xcc 0x80 is U+0300
}

int combining_class(utf8proc_int32_t code_point) { return utf8proc_get_property(code_point)->combining_class; }

}  // namespace

std::string to_nfc(std::string_view text) {
  if (is_surely_nfc(text)) return std::string(text);
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t parts[32];  // canonical decompositions have at most 4
    int boundary_state = 0;      // of the grapheme breaker, which is off
    const auto count = utf8proc_decompose_char(utf8proc_int32_t(next_code_point(text, at)), parts, 32, UTF8PROC_DECOMPOSE, &boundary_state);
    if (count < 1 || count > 32) throw InternalError("normalisation: a code point could not be decomposed");
    code_points.insert(code_points.end(), parts, parts + count);
  }
  // Canonical order ourselves: utf8proc's own sort is quadratic, so that a megabyte of mixed accents would take hours.
  std::vector<std::uint64_t> order;  // combining class (8 bits), place (32), code point (24)
  for (auto run = code_points.begin(); run != code_points.end();) {
    if (combining_class(*run) == 0) {
      ++run;
      continue;
    }
    const auto end = std::find_if(run, code_points.end(), [](auto c) { return combining_class(c) == 0; });
    order.clear();
    for (auto mark = run; mark != end; ++mark)
      order.push_back(std::uint64_t(combining_class(*mark)) << 56 | std::uint64_t(mark - run) << 24 | std::uint64_t(*mark));
    std::sort(order.begin(), order.end());  // stable, because the place is part of the key
    std::transform(order.begin(), order.end(), run, [](std::uint64_t key) { return utf8proc_int32_t(key & 0xffffffu); });
    run = end;
  }
  const auto length = utf8proc_normalize_utf32(code_points.data(), utf8proc_ssize_t(code_points.size()), utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (length < 0) throw InternalError("normalisation: composition failed");
  std::string composed;
  composed.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(composed, char32_t(code_points[std::size_t(i)]));
  return composed;
}

}  // namespace octavo
