#include "io/foreign_file.h"

#include <algorithm>
#include <string_view>

namespace octavo {

std::string foreign_kind(std::span<const std::byte> bytes) {
  using namespace std::string_view_literals;
  std::string head(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 64));
  if (head.starts_with("version https://git-lfs"sv)) return "a Git LFS pointer, not the file itself; run 'git lfs pull' in the folder it came from";
  if (head.starts_with("PK\x03\x04"sv)) return "a zip archive (PyTorch .bin and .pt files are zips); convert it to safetensors first";
  if (head.starts_with("\x80\x02"sv) || head.starts_with("\x80\x04"sv) || head.starts_with("\x80\x05"sv))
    return "a Python pickle (an old PyTorch file); convert it to safetensors first";
  if (head.starts_with("GGUF"sv)) return "a GGUF file";
  if (head.starts_with("\x89PNG"sv)) return "a PNG picture";
  if (head.starts_with("\x1f\x8b"sv)) return "a gzip archive; unpack it first";
  head.erase(0, std::min(head.find_first_not_of("\xef\xbb\xbf \t\r\n"), head.size()));
  for (char& c : head) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  if (head.starts_with("<!doctype"sv) || head.starts_with("<html"sv) || head.starts_with("<head"sv)) {
    return "an HTML page, probably the error or login page of a download; download it again, signed in if the site asks for it";
  }
  if (head.starts_with("<?xml"sv)) return "an XML document, probably the error page of a download; download it again";
  return {};
}

}  // namespace octavo
