// What a model folder says about itself: its components, and how it likes to be used.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octavo {

// What the model's folder asks for where a request says nothing. Every field may be absent.
struct GenerationDefaults {
  std::optional<int> width{};
  std::optional<int> height{};
  std::vector<std::array<int, 2>> sizes{};  // further canvases, width and height, that the model was made for
  std::optional<int> steps{};
  std::vector<float> guidance{};  // one value, or one per step
  std::optional<double> mu{};
  std::optional<double> std_dev{};
  std::string source = "model_index.json: 'generation_defaults'";  // for messages: the file and the field
};

// The folders that a model consists of.
inline constexpr std::array<std::string_view, 5> kComponents{"tokenizer", "text_encoder", "transformer", "unconditional_transformer", "vae"};

struct ModelIndex {
  std::filesystem::path folder{};
  std::string family{};           // `_class_name`
  std::vector<int> taps{};        // `text_encoder_taps`, or the 13 of spec section 6.2
  GenerationDefaults defaults{};  // `generation_defaults`

  std::filesystem::path component(std::string_view name) const { return folder / name; }

  // Reads <folder>/model_index.json. Throws InvalidArgument if the folder, the file or a component is missing or the folder holds another
  // family of models, DataError if the file is not JSON or a field has the wrong type.
  static ModelIndex read(const std::filesystem::path& folder);
};

}  // namespace octavo
