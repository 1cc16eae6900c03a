// PNG: 8-bit RGB with text chunks.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "octavo/image.h"

namespace octavo {

inline constexpr int kMaxPngSide = 16384;  // pixels; a picture is at most 768 MiB, a third more while it is decoded

// Encodes image.rgb as PNG (zlib level 3) with image.metadata as text chunks in key order, before the pixels: tEXt where the text is ASCII,
// iTXt (UTF-8) elsewhere. Same picture, same bytes. Throws InvalidArgument if the sizes disagree, a key is not 1 to 79 printable ASCII
// characters without a space at either end, or a text holds NUL or invalid UTF-8.
std::vector<std::byte> encode_png(const Image& image);

// Decodes a PNG of at most 8 bits a sample (grey, RGB, with alpha over black, palette, interlaced or not) to RGB with its text chunks as UTF-8.
// Bytes after the end chunk are not read. Throws DataError on anything else, on any damage, and on a side longer than kMaxPngSide.
Image decode_png(std::span<const std::byte> bytes, const std::string& who);
// Throws InvalidArgument if the file is missing.
Image read_png(const std::filesystem::path& path);

}  // namespace octavo
