#include "pipeline/residency.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "nn/block_stream.h"
#include "octavo/error.h"

namespace octavo {
namespace {

constexpr int kFewestStreamed = 3;

std::int64_t sum_of(const std::vector<std::int64_t>& parts) { return std::accumulate(parts.begin(), parts.end(), std::int64_t(0)); }
std::int64_t largest_of(const std::vector<std::int64_t>& parts) { return parts.empty() ? 0 : *std::max_element(parts.begin(), parts.end()); }

std::int64_t streamed_of(const std::vector<std::int64_t>& layers, int streamed) {
  std::int64_t sum = 0;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (nn::is_streamed_layer(int(l), int(layers.size()), streamed)) sum += layers[l];
  }
  return sum;
}

// In the order of plan_residency.
std::vector<ResidencyChoice> choices_for(const ResidencyWeights& weights) {
  std::vector<ResidencyChoice> choices{{}, {.keeps_conditioning = false}, {.keeps_conditioning = false, .lends_scratch = true}};
  const int cond = int(weights.cond.layers.size()), uncond = int(weights.uncond.layers.size());
  for (int streamed = kFewestStreamed; streamed <= cond + uncond; ++streamed) {
    const int of_cond = int((std::int64_t(streamed) * cond + cond + uncond - 1) / (cond + uncond));
    choices.push_back({.cond_streamed = of_cond, .uncond_streamed = streamed - of_cond, .keeps_conditioning = false, .lends_scratch = true});
  }
  return choices;
}

}  // namespace

std::int64_t ResidencyPlan::Phase::bytes() const {
  std::int64_t sum = 0;
  for (const Item& item : items) sum += item.bytes;
  return sum;
}

const ResidencyPlan::Phase& ResidencyPlan::largest_phase() const {
  return *std::max_element(phases.begin(), phases.end(), [](const Phase& a, const Phase& b) { return a.bytes() < b.bytes(); });
}

std::int64_t ResidencyPlan::peak_bytes() const { return largest_phase().bytes(); }

ResidencyPlan evaluate_residency(const ResidencyWeights& weights, const ResidencyRows& rows, const ResidencyChoice& choice, std::int64_t budget) {
  ResidencyPlan plan{.choice = choice};
  const std::int64_t cond_streamed = streamed_of(weights.cond.layers, choice.cond_streamed);
  const std::int64_t uncond_streamed = streamed_of(weights.uncond.layers, choice.uncond_streamed);
  plan.streamed_bytes = cond_streamed + uncond_streamed;
  plan.scratch_bytes = std::max({rows.text_scratch, rows.prepare_scratch, rows.denoise_scratch}) + kOpWorkspaceBytes;
  const std::int64_t conditioning = weights.cond.conditioning + weights.uncond.conditioning;

  std::vector<ResidencyPlan::Item> always{
      {"CUDA itself (predicted)", kRuntimeBytes},
      {"layers of the conditional denoiser", sum_of(weights.cond.layers) - cond_streamed},
      {"layers of the unconditional denoiser", sum_of(weights.uncond.layers) - uncond_streamed},
      {"the denoisers' other weights", weights.cond.rest + weights.uncond.rest + (choice.keeps_conditioning ? conditioning : 0)},
      {"weights of the autoencoder", weights.autoencoder},
  };
  plan.early_scratch_bytes = choice.lends_scratch ? std::max(rows.text_scratch, rows.prepare_scratch) + kOpWorkspaceBytes : plan.scratch_bytes;
  const ResidencyPlan::Item scratch{"scratch", plan.scratch_bytes}, early_scratch{"scratch", plan.early_scratch_bytes};
  const ResidencyPlan::Item places{"two places for streamed layers", choice.streams() ? 2 * weights.place : 0};
  const ResidencyPlan::Item sessions{"text rows, RoPE tables, modulation", rows.sessions};
  const ResidencyPlan::Item loras{"LoRAs", rows.loras};
  const ResidencyPlan::Item latents{"latents and velocities", rows.latents};

  const auto add = [&](std::string_view name, const std::vector<ResidencyPlan::Item>& own) {
    ResidencyPlan::Phase phase{.name = name, .items = always};
    for (const ResidencyPlan::Item& item : own) phase.items.push_back(item);
    std::erase_if(phase.items, [](const ResidencyPlan::Item& item) { return item.bytes == 0; });
    plan.phases.push_back(std::move(phase));
  };
  const ResidencyPlan::Item tables{"tables of the text encoder", rows.text_tables};
  add("encode", {{"the text encoder", sum_of(weights.text_layers)}, tables, early_scratch});
  plan.keeps_text_whole = plan.phases[0].bytes() <= budget - kMarginBytes;
  if (!plan.keeps_text_whole) {
    plan.phases.clear();
    add("encode", {{"one layer of the text encoder", largest_of(weights.text_layers)}, tables, early_scratch});
  }
  const std::int64_t for_now = choice.keeps_conditioning ? 0 : std::max(weights.cond.conditioning, weights.uncond.conditioning);
  add("prepare", {{"weights that only the preparation reads", for_now}, {"features of the text", rows.features}, sessions, loras, early_scratch});
  add("denoise", {sessions, loras, latents, scratch, places});
  std::vector<ResidencyPlan::Item> decode{{"maps of the decoder", rows.maps}, sessions, loras, latents};
  decode.push_back(choice.lends_scratch ? ResidencyPlan::Item{"scratch", kOpWorkspaceBytes} : scratch);
  add("decode", decode);
  return plan;
}

bool fits_budget(const ResidencyPlan& plan, std::int64_t budget) { return plan.peak_bytes() <= budget - kMarginBytes; }

std::optional<ResidencyPlan> plan_residency(const ResidencyWeights& weights, const ResidencyRows& rows, std::int64_t budget) {
  for (const ResidencyChoice& choice : choices_for(weights)) {
    ResidencyPlan plan = evaluate_residency(weights, rows, choice, budget);
    if (fits_budget(plan, budget)) return plan;
  }
  return std::nullopt;
}

ResidencyPlan with_second_branch(const ResidencyPlan& plan, std::int64_t budget) {
  if (plan.choice.streams() || plan.choice.lends_scratch) return plan;
  ResidencyPlan both = plan;
  both.runs_beside = true;
  for (ResidencyPlan::Phase& phase : both.phases) {
    if (phase.name == "denoise" || phase.name == "decode") phase.items.push_back({"scratch of the second branch", plan.scratch_bytes});
  }
  return fits_budget(both, budget) ? both : plan;
}

std::int64_t smallest_budget(const ResidencyWeights& weights, const ResidencyRows& rows) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (const ResidencyChoice& choice : choices_for(weights)) smallest = std::min(smallest, evaluate_residency(weights, rows, choice, 0).peak_bytes());
  return smallest + kMarginBytes;
}

std::int64_t parse_memory_size(std::string_view option, const std::string& text) {
  const auto refuse = [&](std::string_view problem) {
    throw InvalidArgument(fmt::format("{} '{}' {}; give a number with a unit, like 12GB, 11.5GiB or 800MB", option, text, problem));
  };
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (status != std::errc{}) refuse("is not a size of memory");
  std::string unit(stop, end);
  std::erase(unit, ' ');
  for (char& c : unit) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  constexpr std::pair<std::string_view, double> kUnits[] = {{"gb", 1e9}, {"gib", 1073741824.0}, {"mb", 1e6}, {"mib", 1048576.0}, {"g", 0}, {"m", 0}};
  const auto* known = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& candidate) { return candidate.first == unit; });
  if (unit.empty()) refuse("has no unit");
  if (known == std::end(kUnits)) refuse(fmt::format("has the unknown unit '{}'", std::string(stop, end)));
  if (known->second == 0) refuse(fmt::format("leaves open whether {} is a power of ten or of two", std::string(stop, end)));
  const double bytes = number * known->second;
  constexpr double kMost = 1e15;
  if (!(bytes >= 1 && bytes <= kMost)) refuse("is not between 1 byte and 1000 TB");
  return std::int64_t(bytes);
}

std::string memory_size_text(std::int64_t bytes) {
  if (bytes < 1'000'000'000) return fmt::format("{} MB", (bytes + 999'999) / 1'000'000);
  return fmt::format("{:.1f} GB", std::ceil(double(bytes) / 1e8) / 10);
}

std::string memory_size_word(std::int64_t bytes) {
  std::string word = memory_size_text(bytes);
  std::erase(word, ' ');
  return word;
}

}  // namespace octavo
