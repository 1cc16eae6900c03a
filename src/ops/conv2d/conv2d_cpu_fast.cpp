// conv2d as a matrix product: pixels × (taps · Cin) against Cout × (taps · Cin). A packed tile gathers its pixels' taps; no column matrix
// exists beyond the rows that are packed at once. The chain over (a, b, c) is the plain body's, fused, with the padding's zeros added:
// |fast - plain| <= 2 K 2^-24 Σ |x w|,  K = kh · kw · Cin.
#include <algorithm>
#include <vector>

#include "cpu/convert.h"
#include "cpu/panel_product.h"
#include "cpu/row_math.h"
#include "ops/conv2d/conv2d_backend.h"

namespace octavo {
namespace {

// Where the taps of an output pixel lie.
struct Taps {
  TensorView x{};
  ConvArgs args{};
  std::int64_t kernel_w = 0, width_out = 0;

  // Columns [first, first + count) of the gathered row of output pixel p:  (a, b, c) flattened, zeros outside x.
  void gather(std::int64_t p, std::int64_t first, std::int64_t count, float* to) const {
    const std::int64_t channels = x.shape[2];
    const std::int64_t enlarge = args.upsample_nearest_2x ? 2 : 1;
    const std::int64_t top = p / width_out * args.stride - args.pad_top;
    const std::int64_t left = p % width_out * args.stride - args.pad_left;
    while (count > 0) {
      const std::int64_t tap = first / channels;
      const std::int64_t channel = first % channels;
      const std::int64_t here = std::min(channels - channel, count);
      const std::int64_t row = top + tap / kernel_w;
      const std::int64_t column = left + tap % kernel_w;
      if (row < 0 || row >= x.shape[0] * enlarge || column < 0 || column >= x.shape[1] * enlarge) {
        std::fill_n(to, here, 0.0f);
      } else {
        const std::int64_t index = (row / enlarge * x.shape[1] + column / enlarge) * channels + channel;
        cpu::load_floats(static_cast<const std::byte*>(x.data) + std::size_t(index) * bytes_of(x.dtype), x.dtype, here, to);
      }
      first += here;
      count -= here;
      to += here;
    }
  }
};

cpu::StripSource pixel_rows(const Taps& taps) {
  return [taps](std::int64_t first_row, int rows, std::int64_t first_unit, std::int64_t units, std::uint32_t* room) {
    for (int row = 0; row < rows; ++row) taps.gather(first_row + row, first_unit, units, reinterpret_cast<float*>(room) + row * units);
    return cpu::Strip{room, units};
  };
}

// Adds the residual to `count` values and stores them, from element `index` of the dense map on.
void finish_run(const std::optional<TensorView>& residual, const TensorView& y, std::size_t index, std::int64_t count, float* values) {
  if (residual) {
    float r[cpu::kMaxBlockColumns];
    cpu::load_floats(static_cast<const std::byte*>(residual->data) + index * bytes_of(residual->dtype), residual->dtype, count, r);
    cpu::add(values, r, count);
  }
  cpu::store_floats(values, count, y.dtype, static_cast<std::byte*>(y.data) + index * bytes_of(y.dtype));
}

}  // namespace

void conv2d_cpu_fast(ExecContext& ctx, const TensorView& x, const ConvWeights& w, const ConvArgs& args, const std::optional<TensorView>& residual,
                     const TensorView& y, cpu::Isa isa) {
  const std::int64_t outputs = w.weight.shape[0];
  const std::int64_t k = w.weight.shape[1] * w.weight.shape[2] * w.weight.shape[3];
  if (k == 0) return conv2d_cpu(x, w, args, residual, y);
  const bool is_pointwise = w.weight.shape[1] == 1 && w.weight.shape[2] == 1 && args.stride == 1 && !args.upsample_nearest_2x && args.pad_top == 0 &&
                            args.pad_left == 0 && args.pad_bottom == 0 && args.pad_right == 0;
  const Taps taps{.x = x, .args = args, .kernel_w = w.weight.shape[2], .width_out = y.shape[1]};
  const std::int64_t pixels = y.shape[0] * y.shape[1];
  const cpu::StripSource pixel_source = is_pointwise ? cpu::float_rows(x.reshaped({pixels, k})) : pixel_rows(taps);
  const cpu::StripSource weight_source = cpu::float_rows(w.weight.reshaped({outputs, k}));
  const Tensor bias = w.bias ? to_float_tensor(*w.bias) : Tensor::zeros(DType::f32, {outputs});
  const cpu::PanelKernel<float>& kernel = cpu::f32_kernel(isa);

  // A panel always computes kernel.columns outputs. For the few of an RGB image the roles are swapped: outputs are the rows of a small tile,
  // pixels the columns. The chain of every element stays the same.
  if (outputs * 4 <= kernel.columns) {
    cpu::PanelProduct<float> product{.m = outputs, .n = pixels, .k = k, .a = weight_source, .b = pixel_source};
    product.finish = [&](std::int64_t o, std::int64_t first, std::int64_t count, const float* values) {
      for (std::int64_t i = 0; i < count; ++i) {
        float value = values[i] + bias.as<float>()[o];
        finish_run(residual, y, std::size_t((first + i) * outputs + o), 1, &value);
      }
    };
    return cpu::multiply_panels(*ctx.pool, *ctx.scratch, kernel, product);
  }
  cpu::PanelProduct<float> product{.m = pixels, .n = outputs, .k = k, .a = pixel_source, .b = weight_source};
  product.finish = [&](std::int64_t pixel, std::int64_t first, std::int64_t count, float* values) {
    cpu::add(values, bias.as<float>() + first, count);
    finish_run(residual, y, std::size_t(pixel * outputs + first), count, values);
  };
  cpu::multiply_panels(*ctx.pool, *ctx.scratch, kernel, product);
}

}  // namespace octavo
