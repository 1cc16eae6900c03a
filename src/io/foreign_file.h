// Files that people have instead of the one they wanted.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace octavo {

// Names what the bytes are and what to do about it, if they are one of the usual mistakes: an HTML page, a Git LFS pointer, a zip (a PyTorch
// checkpoint), a pickle, a GGUF file, a PNG. Empty if they are none of them. Looks at the first 64 bytes only.
std::string foreign_kind(std::span<const std::byte> bytes);

}  // namespace octavo
