// A finished picture: 8-bit RGB, rows from the top, three interleaved bytes a pixel.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "octavo/version.h"

namespace octavo {

struct Image {
  int width = 0;                                  // pixels
  int height = 0;                                 // pixels
  std::vector<std::uint8_t> rgb{};                // height * width * 3 bytes
  std::uint64_t seed = 0;                         // the seed that this picture was drawn from
  std::map<std::string, std::string> metadata{};  // what `save_png` writes as text chunks; enough to repeat the request
};

// Writes the picture as PNG to `path`, or to standard output if `path` is "-".
// The file appears whole or not at all (written beside, then renamed).
// Throws InvalidArgument if the path cannot be written.
OCTAVO_API void save_png(const Image& image, const std::string& path);

}  // namespace octavo
