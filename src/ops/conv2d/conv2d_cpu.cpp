// The definition of conv2d: the sum as it is written, zeros outside.
#include "ops/conv2d/conv2d_backend.h"

namespace octavo {

void conv2d_cpu(const TensorView& x, const ConvWeights& w, const ConvArgs& args, const std::optional<TensorView>& residual, const TensorView& y) {
  const std::int64_t enlarge = args.upsample_nearest_2x ? 2 : 1;
  const std::int64_t height = x.shape[0] * enlarge, width = x.shape[1] * enlarge, channels = x.shape[2];
  const std::int64_t kernel_h = w.weight.shape[1], kernel_w = w.weight.shape[2];
  const Tensor in = to_float_tensor(x);
  const Tensor weight = to_float_tensor(w.weight);
  const Tensor bias = w.bias ? to_float_tensor(*w.bias) : Tensor::zeros(DType::f32, {y.shape[2]});
  for (std::int64_t i = 0; i < y.shape[0]; ++i) {
    for (std::int64_t j = 0; j < y.shape[1]; ++j) {
      for (std::int64_t o = 0; o < y.shape[2]; ++o) {
        float sum = 0;
        for (std::int64_t a = 0; a < kernel_h; ++a) {
          for (std::int64_t b = 0; b < kernel_w; ++b) {
            const std::int64_t row = i * args.stride + a - args.pad_top;
            const std::int64_t column = j * args.stride + b - args.pad_left;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            const float* pixel = in.as<float>() + (row / enlarge * x.shape[1] + column / enlarge) * channels;
            const float* tap = weight.as<float>() + ((o * kernel_h + a) * kernel_w + b) * channels;
            for (std::int64_t c = 0; c < channels; ++c) sum += pixel[c] * tap[c];
          }
        }
        sum += bias.as<float>()[o];
        const std::int64_t index = (i * y.shape[1] + j) * y.shape[2] + o;
        if (residual) {
          float r = 0;
          load_as_float(static_cast<const std::byte*>(residual->data) + std::size_t(index) * bytes_of(residual->dtype), residual->dtype, 1, &r);
          sum += r;
        }
        store_from_float(&sum, 1, y.dtype, static_cast<std::byte*>(y.data) + std::size_t(index) * bytes_of(y.dtype));
      }
    }
  }
}

}  // namespace octavo
