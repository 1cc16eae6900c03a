#include "pipeline/request_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "octavo/error.h"
#include "pipeline/presets.h"
#include "text/caption.h"
#include "text/tokenizer.h"

namespace octavo {
namespace {

constexpr int kLargestSide = 2048;  // pixels, spec section 11.4; --force lifts it
constexpr int kSmallestGoodSide = 256;
constexpr int kGoodAspect = 6;
constexpr int kMostSteps = 10'000;     // 48 is much; this is the guard against a slip of the finger that would fill the memory with schedule
constexpr int kMostPictures = 10'000;  // in one batch

[[noreturn]] void refuse(const std::string& message) { throw InvalidArgument("generate: " + message); }

// Who gave a value: the option, or the model in its defaults where nobody did.
struct Giver {
  std::string_view option{};
  std::string_view field{};                   // the same in generation_defaults
  const GenerationDefaults* model = nullptr;  // null: the option or a preset gave it

  // `problem` begins with the value; `way_out` is that of the option.
  [[noreturn]] void refuse(const std::string& problem, const std::string& way_out = "") const {
    if (model != nullptr) throw DataError(fmt::format("{}: {} {}; correct the file, or draw with {}", model->source, field, problem, option));
    octavo::refuse(fmt::format("{} {}{}{}", option, problem, way_out.empty() ? "" : "; ", way_out));
  }
};

void check_side(const Giver& giver, int side, int grid, bool force) {
  if (side < 1) giver.refuse(fmt::format("{} must be a multiple of {} and at least {}", side, grid, grid), fmt::format("nearest: {}", grid));
  if (side > kLargestSide && !force) {
    giver.refuse(fmt::format("{} is over the limit of {} that the model knows", side, kLargestSide),
                 fmt::format("use at most {}, or add --force", kLargestSide / grid * grid));
  }
  if (side % grid == 0) return;
  const std::int64_t below = std::int64_t(side) / grid * grid;
  const std::int64_t above = below + grid;
  const bool has_below = below > 0;
  const bool has_above = (above <= kLargestSide || force) && above <= std::numeric_limits<int>::max();
  giver.refuse(fmt::format("{} must be a multiple of {}", side, grid),
               fmt::format("nearest: {}", has_below && has_above ? fmt::format("{}, {}", below, above) : std::to_string(has_below ? below : above)));
}

void check_finite(const Giver& giver, double value) {
  if (!std::isfinite(value)) giver.refuse(fmt::format("{} is not a finite number", value), "give one like 0.5");
}

void check_loras(const std::vector<LoraSource>& loras) {
  for (const LoraSource& lora : loras) {
    if (lora.path.empty()) refuse("--lora has no file; give FILE or FILE:STRENGTH");
    if (!std::isfinite(lora.strength)) {
      refuse(fmt::format("--lora '{}': its strength {} is not a finite number; give one like 0.8", lora.path, lora.strength));
    }
  }
}

const Preset& preset_of(const Request& request) {
  if (!request.preset) return kDefaultPreset;
  if (const Preset* preset = find_preset(*request.preset)) return *preset;
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  refuse(fmt::format("--preset '{}' is unknown; known: {}", *request.preset, fmt::join(names, ", ")));
}

std::vector<float> guidance_for(const Request& request, const Preset& preset, const GenerationDefaults& defaults, int steps) {
  if (!request.guidance.empty()) {
    for (const float value : request.guidance) check_finite({.option = "--guidance"}, value);
    if (request.guidance.size() == 1) return std::vector<float>(std::size_t(steps), request.guidance.front());
    if (request.guidance.size() != std::size_t(steps)) {
      refuse(fmt::format("--guidance has {} values for {} steps; give one value for all steps, or {} in time order", request.guidance.size(), steps, steps));
    }
    return request.guidance;
  }
  if (!request.preset && !defaults.guidance.empty()) {
    for (const float value : defaults.guidance) check_finite({"--guidance", "guidance", &defaults}, value);
    return guidance_stretched(defaults.guidance, steps);
  }
  return guidance_of(preset, steps);
}

void check_prompt(const std::string& prompt) {
  const std::size_t bad = first_invalid_byte(prompt);
  if (bad == std::string::npos) return;
  const auto byte = static_cast<unsigned char>(prompt[bad]);
  refuse(fmt::format("the prompt has {} at byte {} (0x{:02x}); give it as UTF-8 text", byte == 0 ? "a NUL" : "invalid UTF-8", bad, byte));
}

void advise_defaults(const Request& request, const GenerationDefaults& defaults, std::vector<std::string>& lines) {
  const bool says_nothing = !defaults.width && !defaults.height && !defaults.steps && defaults.guidance.empty() && !defaults.mu && !defaults.std_dev;
  if (!says_nothing || request.preset || request.steps) return;
  lines.push_back(fmt::format("the model's folder has no generation_defaults; drawing with preset {}", kDefaultPreset.name));
}

// One line at most: everything that makes the size unusual. None for a size that the model names.
void advise_size(const Request& request, const GenerationDefaults& defaults, std::vector<std::string>& lines) {
  const int width = *request.width;
  const int height = *request.height;
  std::vector<std::array<int, 2>> known = defaults.sizes;
  if (defaults.width && defaults.height) known.insert(known.begin(), {*defaults.width, *defaults.height});
  if (std::find(known.begin(), known.end(), std::array{width, height}) != known.end()) return;
  std::vector<std::string> reasons;
  if (std::min(width, height) < kSmallestGoodSide) reasons.push_back(fmt::format("a side is under {} pixels", kSmallestGoodSide));
  if (std::max(width, height) > kLargestSide) reasons.push_back(fmt::format("a side is over {} pixels", kLargestSide));
  if (std::max(width, height) > std::int64_t(kGoodAspect) * std::min(width, height)) reasons.push_back(fmt::format("it is longer than {}:1", kGoodAspect));
  if (!known.empty()) {
    std::vector<std::string> names;
    for (const auto& [known_width, known_height] : known) names.push_back(fmt::format("{}x{}", known_width, known_height));
    reasons.push_back(fmt::format("this model was made for {}", fmt::join(names, ", ")));
  }
  if (!reasons.empty()) lines.push_back(fmt::format("size {}x{} may look poor: {}", width, height, fmt::join(reasons, "; ")));
}

void advise_prompt(const std::string& prompt, std::vector<std::string>& lines) {
  if (!looks_like_caption(prompt)) {
    lines.emplace_back("the prompt is plain text; JSON captions give the best pictures (docs/cli.md, \"Captions\")");
    return;
  }
  for (const std::string& warning : check_caption(prompt)) lines.push_back("caption: " + warning);
}

}  // namespace

RequestPlan plan_request(const Request& request, const GenerationDefaults& defaults, int token_pixels) {
  const Preset& preset = preset_of(request);
  const bool use_defaults = !request.preset;  // a preset that was asked for stands above the model's defaults
  RequestPlan plan;
  plan.request = request;
  Request& full = plan.request;
  const auto giver = [&](std::string_view option, std::string_view field, bool is_of_model) {
    return Giver{.option = option, .field = field, .model = is_of_model ? &defaults : nullptr};
  };

  check_prompt(full.prompt);
  full.width = request.width.value_or(defaults.width.value_or(kDefaultSide));
  full.height = request.height.value_or(defaults.height.value_or(kDefaultSide));
  check_side(giver("--width", "width", !request.width && defaults.width), *full.width, token_pixels, full.force);
  check_side(giver("--height", "height", !request.height && defaults.height), *full.height, token_pixels, full.force);
  plan.grid_width = *full.width / token_pixels;
  plan.grid_height = *full.height / token_pixels;

  full.steps = request.steps.value_or(use_defaults ? defaults.steps.value_or(preset.steps) : preset.steps);
  const Giver steps = giver("--steps", "steps", !request.steps && use_defaults && defaults.steps);
  if (*full.steps < 1) steps.refuse(fmt::format("{} must be at least 1", *full.steps));
  if (*full.steps > kMostSteps) steps.refuse(fmt::format("{} must be at most {}", *full.steps, kMostSteps), "12 to 48 are usual");
  full.guidance = guidance_for(request, preset, defaults, *full.steps);
  full.mu = request.mu.value_or(use_defaults ? defaults.mu.value_or(preset.mu) : preset.mu);
  full.std_dev = request.std_dev.value_or(use_defaults ? defaults.std_dev.value_or(preset.std_dev) : preset.std_dev);
  check_finite(giver("--mu", "mu", !request.mu && use_defaults && defaults.mu), *full.mu);
  const Giver std_dev = giver("--std", "std", !request.std_dev && use_defaults && defaults.std_dev);
  check_finite(std_dev, *full.std_dev);
  if (*full.std_dev <= 0) std_dev.refuse(fmt::format("{} must be greater than 0", *full.std_dev));

  check_loras(full.loras);
  if (full.batch < 1) refuse(fmt::format("--batch {} must be at least 1", full.batch));
  if (full.batch > kMostPictures) refuse(fmt::format("--batch {} must be at most {}; draw the rest with another --seed", full.batch, kMostPictures));
  if (full.seed > std::numeric_limits<std::uint64_t>::max() - std::uint64_t(full.batch - 1)) {
    refuse(fmt::format("--seed {} with --batch {} passes the largest seed {}; use a smaller seed", full.seed, full.batch,
                       std::numeric_limits<std::uint64_t>::max()));
  }

  plan.schedule = make_schedule(*full.steps, *full.mu, *full.std_dev, *full.width, *full.height, full.schedule_end);
  advise_defaults(request, defaults, plan.advisories);
  advise_size(full, defaults, plan.advisories);
  advise_prompt(full.prompt, plan.advisories);
  return plan;
}

}  // namespace octavo
