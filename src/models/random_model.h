// A model's folder without a model: right configurations, names and shapes, random numbers. For benches of speed and memory; its pictures mean nothing.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::models {

// The names that write_random_model knows: the full size first, then a small one for tests and for trying things out.
std::span<const std::string_view> random_model_names();

// Writes a whole model into `folder`: model_index.json, a tokenizer of bytes, and transformer, unconditional_transformer, text_encoder and vae with config.json
// and a safetensors file each. Matrices are holes (WeightStore::is_random); norms are 1, the rest small random numbers. A few hundred MB of disk at full size,
// most of them the decoder's convolutions.
// The text encoder's table has 1 024 rows instead of a real vocabulary: rows are looked up on the host, so their number costs no time.
// Throws InvalidArgument on another name, or if the folder cannot be written.
void write_random_model(const std::filesystem::path& folder, std::string_view name);

// The layers of its text encoder whose output is kept.
std::vector<int> random_model_taps(std::string_view name);

// A prompt that its tokenizer makes `tokens` tokens of, with the chat template. Throws InvalidArgument if the template alone has more.
std::string random_model_prompt(int tokens);

// The same model in a folder of its own in TMPDIR, which is gone when this is.
class TemporaryRandomModel {
 public:
  explicit TemporaryRandomModel(std::string_view name);
  ~TemporaryRandomModel();
  TemporaryRandomModel(const TemporaryRandomModel&) = delete;
  TemporaryRandomModel& operator=(const TemporaryRandomModel&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  void remove() noexcept;
  std::filesystem::path path_{};
};

}  // namespace octavo::models
