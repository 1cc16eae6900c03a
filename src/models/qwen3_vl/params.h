// The declarative half of the text encoder. spec section 6.3
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/qwen3_vl/text_encoder.h"
#include "weights/weight_store.h"

namespace octavo::qwen3_vl {

// What stands before "embed_tokens.weight" in this checkpoint.
std::string find_prefix(const WeightStore& store);

std::string layer_name(const std::string& prefix, int index, std::string_view module);

// What the projections' weights become: what the recipe says where rows have 16 bits, else as stored.
NumberFormat weight_format(const Precision& precision);

// The parameters of the first `layers` decoder layers and the embedding.
std::vector<ParamSpec> parameters(const Config& config, const std::string& prefix, int layers);

}  // namespace octavo::qwen3_vl
