// `octavo tune`: measure once which kernel runs which linear best on this GPU, and remember it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "api/describe.h"
#include "octavo/version.h"

namespace octavo {

struct TuneOptions {
  std::string device = "cuda";  // "cuda", "cuda:1"
  std::string shapes{};         // a model's name, or "M,N,K[;M,N,K…]"; M may be "M1+M2", two problems in one launch. Empty: the default model
  bool force = false;           // measure again what is known
  bool regret = false;          // afterwards time every candidate exhaustively and say how far the choice is from the best; slow
  std::optional<std::string> export_path{};
  std::optional<std::string> import_path{};
  Format format = Format::text;
  std::function<void(const std::string&)> progress{};  // one line a shape
};

// Returns what to print. Importing and exporting without shapes measures nothing.
// Throws Unsupported without a GPU, InvalidArgument on shapes and paths, DataError on a table that is damaged or of another GPU.
OCTAVO_API std::string tune_kernels(const TuneOptions& options);

}  // namespace octavo
