// A model's folder without a model: right configurations, names and shapes, random numbers. For benches of speed and memory; its pictures mean nothing.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace octavo::models {

// The names that write_random_model knows: the full size first, then a small one for tests and for trying things out.
std::span<const std::string_view> random_model_names();

// Writes transformer, unconditional_transformer, text_encoder and vae with config.json and a safetensors file each into `folder`. Matrices are holes
// (WeightStore::is_random); norms are 1, the rest small random numbers. A few hundred MB of disk at full size, most of them the decoder's convolutions.
// The text encoder's table has 1 024 rows instead of a real vocabulary: rows are looked up on the host, so their number costs no time.
// Throws InvalidArgument on another name, or if the folder cannot be written.
void write_random_model(const std::filesystem::path& folder, std::string_view name);

// The layers of its text encoder whose output is kept.
std::vector<int> random_model_taps(std::string_view name);

}  // namespace octavo::models
