// Any bytes as PNG: an error of ours, or a picture that is the same after writing and reading it again.
#include "fuzz/check.h"
#include "io/png.h"
#include "octavo/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using octavo::fuzz::check;
  octavo::Image image;
  try {
    image = octavo::decode_png({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  } catch (const octavo::DataError&) {
    return 0;
  }
  check(image.rgb.size() == std::size_t(image.width) * std::size_t(image.height) * 3, "rgb has three bytes a pixel");
  if (image.rgb.size() > (1u << 20)) return 0;  // writing is slow and the same for all sizes
  try {
    const octavo::Image again = octavo::decode_png(octavo::encode_png(image), "again");
    check(again.rgb == image.rgb && again.metadata == image.metadata, "a picture survives writing and reading");
  } catch (const octavo::InvalidArgument&) {  // a foreign key (Latin-1, say) that we do not write
  }
  return 0;
}
