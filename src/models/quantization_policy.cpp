#include "models/quantization_policy.h"

#include "models/ideogram4/params.h"

namespace octavo::models {

std::span<const std::string_view> sensitive_modules() { return ideogram4::sensitive_modules(); }

std::vector<SmoothingSite> smoothing_sites(const WeightStore& store) { return ideogram4::smoothing_sites(store); }

}  // namespace octavo::models
