#include "pipeline/dump.h"

#include <algorithm>
#include <cstring>

#include "io/safetensors.h"

namespace octavo {

Dump::Dump(int steps, int batch, std::int64_t image_tokens, std::int64_t channels, int height, int width)
    : batch_(batch),
      latents_(DType::f32, Shape{steps, batch, image_tokens, channels}, {}, "latents of --dump"),
      velocity_cond_(DType::f32, Shape{steps, batch, image_tokens, channels}, {}, "velocities of --dump"),
      velocity_uncond_(DType::f32, Shape{steps, batch, image_tokens, channels}, {}, "velocities of --dump"),
      images_(DType::f32, Shape{batch, height, width, 3}, {}, "images of --dump") {}

void Dump::set_text(std::span<const std::int32_t> tokens, const TensorView& features) {
  tokens_ = Tensor(DType::s32, Shape{std::int64_t(tokens.size())});
  std::copy(tokens.begin(), tokens.end(), tokens_.as<std::int32_t>());
  features_ = to_float_tensor(features);
}

void Dump::set_sigmas(std::span<const float> sigmas) {
  sigmas_ = Tensor(DType::f32, Shape{std::int64_t(sigmas.size())});
  std::copy(sigmas.begin(), sigmas.end(), sigmas_.as<float>());
}

TensorView Dump::at(const Tensor& tensor, int step, int picture) const {
  const Shape& shape = tensor.shape();
  return {tensor.as<float>() + (step * batch_ + picture) * shape[2] * shape[3], DType::f32, Shape{shape[2], shape[3]}};
}

TensorView Dump::image(int picture) {
  const Shape& shape = images_.shape();
  return {images_.as<float>() + picture * shape[1] * shape[2] * shape[3], DType::f32, Shape{shape[1], shape[2], shape[3]}};
}

void Dump::write(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata) const {
  const Shape& shape = images_.shape();
  const TensorView images = batch_ == 1 ? images_.view().reshaped(Shape{shape[1], shape[2], shape[3]}) : images_.view();
  const NamedTensor tensors[] = {{"tokens", tokens_},
                                 {"text_features", features_},
                                 {"sigmas", sigmas_},
                                 {"latents_per_step", latents_},
                                 {"velocity_cond", velocity_cond_},
                                 {"velocity_uncond", velocity_uncond_},
                                 {"image", images}};
  write_safetensors(path, tensors, metadata);
}

}  // namespace octavo
