#include "api/quantize_pictures.h"

#include <fmt/format.h>

#include <array>
#include <sstream>

#include "api/describe.h"
#include "octavo/error.h"
#include "pipeline/pipeline.h"

namespace octavo {
namespace {

// Few, plain, and different in size, number and place. Who draws something else should say so with --calibrate.
constexpr std::array<const char*, 4> kBuiltInPrompts{"three orange stars in a row on a blue background", "a red circle on a white background",
                                                     "a yellow moon in the top right corner on a navy background", "two green squares on a white background"};

}  // namespace

CalibrationPrompts calibration_prompts(const std::string& path) {
  if (path.empty()) return {{kBuiltInPrompts.begin(), kBuiltInPrompts.end()}, fmt::format("{} built-in prompts", kBuiltInPrompts.size())};
  CalibrationPrompts result;
  std::istringstream text(read_text_argument(path, "quantize: --calibrate"));
  for (std::string line; std::getline(text, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.pop_back();
    if (!line.empty()) result.prompts.push_back(line);
  }
  if (result.prompts.empty()) throw InvalidArgument(fmt::format("quantize: --calibrate '{}' holds no prompt; write one a line", path));
  result.text = fmt::format("{} prompt{} of {}", result.prompts.size(), result.prompts.size() == 1 ? "" : "s", path);
  return result;
}

std::vector<Image> draw_prompts(const std::string& model, const PictureSettings& settings, const std::vector<std::string>& prompts, std::size_t kept,
                                Observer& observer, const std::function<void(std::size_t done)>& say) {
  Pipeline pipeline({.model = model, .precision = settings.precision, .threads = settings.threads});
  std::vector<Image> pictures;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    say(i);
    Request request;
    request.prompt = prompts[i];
    request.seed = i;
    request.width = request.height = settings.size;
    request.steps = settings.steps;
    std::vector<Image> drawn = pipeline.run(pipeline.plan(request), observer, {});
    if (i < kept) pictures.push_back(std::move(drawn.at(0)));
  }
  return pictures;
}

}  // namespace octavo
