// What the program prints about things that it does not draw. Each function returns whole text, ready for standard output:
// lines for people, or one JSON document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/image.h"
#include "octavo/request.h"
#include "octavo/version.h"

namespace octavo {

enum class Format { text, json };

struct InspectOptions {
  std::string precision = "auto";        // as in EngineOptions
  std::optional<int> width{}, height{};  // of the picture whose memory is predicted
};
// A model folder, a component folder, a file with weights or a picture drawn by this program.
OCTAVO_API std::string describe_path(const std::string& path, const InspectOptions& options, Format format);
// CPU, GPUs or why there are none, and which precision runs where.
OCTAVO_API std::string describe_devices(Format format);
OCTAVO_API std::string describe_version(Format format);
// The verifier's findings about a JSON caption; `name` is what to call it.
OCTAVO_API std::string describe_caption(const std::string& text, const std::string& name, Format format);
// The compact form that the model reads. Throws DataError if it is not JSON.
OCTAVO_API std::string compact_caption_text(const std::string& text);

struct DrawnPicture {
  std::string path{};
  Image image{};  // its pixels are not looked at
};
// The result of `generate --json`.
OCTAVO_API std::string describe_pictures(const std::vector<DrawnPicture>& pictures, double seconds, std::int64_t peak_memory_bytes,
                                         const std::string& dump_path);

// A whole file, or standard input for "-". Throws InvalidArgument if it cannot be read or is over 16 MiB.
OCTAVO_API std::string read_text_argument(const std::string& path, std::string_view option);
// Proves, by creating a file beside it, that `path` can be written; returns where it really lies (a link is followed).
// Throws InvalidArgument naming `option`.
OCTAVO_API std::string check_output_path(const std::string& path, std::string_view option);
// Throws InvalidArgument if writing `path` would replace a file of the model folder `model`, or lay one beside the weights of a component.
OCTAVO_API void check_not_of_model(const std::string& path, const std::string& model, std::string_view option);
// The one of `options` (at least one) that is most like `word`.
OCTAVO_API std::string nearest_option(const std::string& word, const std::vector<std::string>& options);
// PNG bytes as save_png writes them.
OCTAVO_API std::string png_bytes(const Image& image);

}  // namespace octavo
