// `octavo quantize`: a model or one of its files into an INT8 copy.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/describe.h"
#include "octavo/version.h"

namespace octavo {

struct QuantizeOptions {
  std::string in{};
  std::string out{};
  std::string scheme = "convrot";      // or "w8a8": no rotation
  int group = 256;                     // largest rotation group
  std::vector<std::string> protect{};  // "auto", "none" or patterns; empty: auto. Patterns come on top of auto unless "none" is among them
  double smooth = 0;                   // alpha; 0: no smoothing
  std::string calibrate{};             // file with one prompt a line, drawn to see what the layers read; needed by `smooth`
  int threads = 0;
  Format format = Format::text;
  std::function<void(const std::string&)> progress{};  // lines for a person
  std::function<bool()> cancelled{};
};

// A model folder gives a folder with both denoisers quantised and everything else linked or copied; a component folder or a file gives a file, or a
// folder if `out` does not end in .safetensors. Returns what became of every layer. Throws as quantize_checkpoint does, InvalidArgument on options.
OCTAVO_API std::string quantize_model(const QuantizeOptions& options);

}  // namespace octavo
