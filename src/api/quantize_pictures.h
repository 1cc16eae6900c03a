// The pictures of `octavo quantize`: drawn by the source to see what its layers read, and again by the result to see what changed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/calibration.h"
#include "octavo/image.h"
#include "quant/precision.h"

namespace octavo {

struct CalibrationPrompts {
  std::vector<std::string> prompts{};
  std::string text{};  // "4 built-in prompts", "7 prompts of file.txt"
};

// The lines of a file that hold more than spaces, or the built-in prompts if `path` is empty. Throws InvalidArgument if the file holds none.
CalibrationPrompts calibration_prompts(const std::string& path);

struct PictureSettings {
  Precision precision{};
  int threads = 0;
  std::optional<int> size{}, steps{};  // else the model's own
};

// Draws prompt i with seed i; keeps the first `kept` pictures.
std::vector<Image> draw_prompts(const std::string& model, const PictureSettings& settings, const std::vector<std::string>& prompts, std::size_t kept,
                                Observer& observer, const std::function<void(std::size_t done)>& say);

}  // namespace octavo
