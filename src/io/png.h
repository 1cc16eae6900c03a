// PNG: 8-bit RGB with text chunks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "octavo/image.h"

namespace octavo {

// Encodes image.rgb as PNG (zlib level 3) with image.metadata as text chunks (iTXt where the text is not Latin-1), in key order.
std::vector<std::byte> encode_png(const Image& image);

// Decodes an 8-bit PNG (grey, RGB, RGBA over black, palette) to RGB with its text chunks. Throws DataError on anything else or damage.
Image decode_png(std::span<const std::byte> bytes, const std::string& who);
Image read_png(const std::filesystem::path& path);

}  // namespace octavo
