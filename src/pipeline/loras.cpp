#include "pipeline/loras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/ideogram4/params.h"
#include "octavo/error.h"
#include "weights/weight_store.h"

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

// A LoRA is made for the rows that a layer reads in the original model.
void refuse_folded_smoothing(const std::string& path, const ModelIndex& model, const char* component) {
  const WeightStore store(model.component(component), component);
  if (!store.has_folded_smoothing()) return;
  throw Unsupported(
      fmt::format("lora '{}': the {}'s layers read smoothed rows ('octavo quantize --smooth' folded the factors into what comes before them: {}), which a LoRA "
                  "was not made "
                  "for; use the model as it was before, or quantise it again without --smooth",
                  path, component, store.recipe()));
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
    if (!fit.conditional.empty()) refuse_folded_smoothing(source.path, model, "transformer");
    if (!fit.unconditional.empty()) refuse_folded_smoothing(source.path, model, "unconditional_transformer");
    append(conditional_, fit.conditional);
    append(unconditional_, fit.unconditional);
  }
}

}  // namespace octavo
