// `octavo quantize`: a model or one of its files into an INT8 copy.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/describe.h"
#include "octavo/version.h"

namespace octavo {

struct QuantizeOptions {
  std::string in{};
  std::string out{};
  std::string scheme = "convrot";  // or "w8a8": no rotation
  int group = 256;                 // largest rotation group
  // Without any word the layers that converters leave alone are kept. "none": they are not. "auto": every layer is measured, and the worst are kept
  // as well, as far as `budget` goes. Anything else is a pattern of layers to keep as well.
  std::vector<std::string> protect{};
  std::optional<double> budget{};                      // percent that the layers kept by "auto" may add to a file; 5 if not given
  double smooth = 0;                                   // alpha; 0: no smoothing
  std::string calibrate{};                             // file with one prompt a line, drawn to see what the layers read; empty: a few built-in prompts
  std::optional<int> picture_size{}, picture_steps{};  // of those pictures and of the report's: a side in pixels, denoising steps; else the model's own
  std::string report{};                                // folder for report.html and report.json; empty: none
  int threads = 0;
  Format format = Format::text;
  std::function<void(const std::string&)> progress{};  // lines for a person
  std::function<bool()> cancelled{};
};

// A model folder gives a folder with both denoisers quantised and everything else linked or copied; a component folder or a file gives a file, or a
// folder if `out` does not end in .safetensors. Returns what became of every layer. A run that fails leaves nothing behind; one that is cancelled or
// killed leaves its parts, and the same options go on from them. Smoothing, "auto" and the report's pictures need a whole model folder. Throws as
// quantize_checkpoint does, InvalidArgument on options.
OCTAVO_API std::string quantize_model(const QuantizeOptions& options);

}  // namespace octavo
