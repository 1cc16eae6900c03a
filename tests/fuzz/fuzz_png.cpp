// Any bytes as PNG: an error of ours, or a picture that is the same after writing and reading it again.
// Every input is tried twice: as it is, and with the checksums made right, since no mutation would find them and get past the first chunk.
#include "fuzz/check.h"
#include "io/png.h"
#include "octavo/error.h"

namespace {

std::uint32_t checksum(std::span<const std::uint8_t> bytes) {  // PNG specification, annex D
  std::uint32_t crc = ~0u;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
  }
  return ~crc;
}

void repair_checksums(std::vector<std::uint8_t>& png) {
  constexpr std::size_t kSignature = 8, kAround = 12;  // length and kind before a chunk's bytes, checksum after
  for (std::size_t at = kSignature; at + kAround <= png.size();) {
    const std::size_t length = std::size_t(png[at]) << 24 | std::size_t(png[at + 1]) << 16 | std::size_t(png[at + 2]) << 8 | std::size_t(png[at + 3]);
    if (length > png.size() - at - kAround) return;
    const std::uint32_t crc = checksum(std::span(png).subspan(at + 4, length + 4));
    for (std::size_t i = 0; i < 4; ++i) png[at + 8 + length + i] = std::uint8_t(crc >> (24 - 8 * i));
    at += kAround + length;
  }
}

void decode(std::span<const std::uint8_t> bytes) {
  using octavo::fuzz::check;
  octavo::Image image;
  try {
    image = octavo::decode_png(std::as_bytes(bytes), "fuzz");
  } catch (const octavo::DataError&) {
    return;
  }
  check(image.rgb.size() == std::size_t(image.width) * std::size_t(image.height) * 3, "rgb has three bytes a pixel");
  if (image.rgb.size() > (1u << 16)) return;  // writing is slow and the same for all sizes
  try {
    const octavo::Image again = octavo::decode_png(octavo::encode_png(image), "again");
    check(again.rgb == image.rgb && again.metadata == image.metadata, "a picture survives writing and reading");
  } catch (const octavo::InvalidArgument&) {  // a foreign key (Latin-1, say) that we do not write
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> png(data, data + size);
  decode(png);
  repair_checksums(png);
  decode(png);
  return 0;
}
