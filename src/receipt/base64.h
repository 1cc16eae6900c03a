// Bytes as text (RFC 4648, with padding), for pictures inside a page.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace octavo {

std::string base64(std::span<const std::byte> bytes);

}  // namespace octavo
