#include "pipeline/loras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/ideogram4/params.h"

namespace octavo {
namespace {

void append(LoraTerms& to, const LoraTerms& from) {
  for (const auto& [projection, terms] : from) to[projection].insert(to[projection].end(), terms.begin(), terms.end());
}

// "lora 'style.safetensors': 408 of 410 keys applied, strength 0.8; without a place in this model: ..."
std::string report(const LoraSource& source, const LoraFile& file, const LoraFit& fit) {
  std::string line = fmt::format("lora '{}': {} of {} keys applied, strength {}", source.path, fit.keys_applied, file.keys(), source.strength);
  if (!fit.unconditional.empty()) line += fit.conditional.empty() ? ", on the unconditional denoiser" : ", on both denoisers";
  if (fit.left_over.empty()) return line;
  constexpr std::size_t kShown = 3;
  const auto shown = std::span(fit.left_over).first(std::min(kShown, fit.left_over.size()));
  const std::string more = fit.left_over.size() > kShown ? fmt::format(" and {} more", fit.left_over.size() - kShown) : "";
  return line + fmt::format("; without a place in this model: {}{}", fmt::join(shown, ", "), more);
}

}  // namespace

RequestLoras::RequestLoras(std::span<const LoraSource> sources, const ModelIndex& model, Observer& observer) {
  if (sources.empty()) return;
  const auto conditional = ideogram4::Config::read(model.component("transformer"));
  const auto unconditional = ideogram4::Config::read(model.component("unconditional_transformer"));
  const std::vector<LoraTarget> of_conditional = ideogram4::lora_targets(conditional, true), of_unconditional = ideogram4::lora_targets(unconditional, false);
  for (const LoraSource& source : sources) {
    const LoraFile& file = files_.emplace_back(source.path);
    const LoraFit fit = fit_lora(file, source.strength, of_conditional, of_unconditional);
    observer.on_advisory(report(source, file, fit));
    if (source.strength == 0) continue;  // checked like any other, but nothing to compute
    append(conditional_, fit.conditional);
    append(unconditional_, fit.unconditional);
  }
}

}  // namespace octavo
