// The definition of group_norm: two passes for the statistics, one for the result.
#include <cmath>
#include <vector>

#include "ops/group_norm/group_norm_backend.h"

namespace octavo {

void group_norm_statistics_cpu(const TensorView& x, const GroupNormArgs& args, const TensorView& statistics) {
  const std::int64_t pixels = x.rows(), channels = x.columns(), group_channels = channels / args.groups;
  const Tensor in = to_float_tensor(x);
  const double count = double(pixels) * double(group_channels);
  for (int g = 0; g < args.groups; ++g) {
    const float* first = in.as<float>() + g * group_channels;
    double sum = 0;
    for (std::int64_t p = 0; p < pixels; ++p) {
      for (std::int64_t c = 0; c < group_channels; ++c) sum += double(first[p * channels + c]);
    }
    const double mean = sum / count;
    double squares = 0;
    for (std::int64_t p = 0; p < pixels; ++p) {
      for (std::int64_t c = 0; c < group_channels; ++c) squares += (double(first[p * channels + c]) - mean) * (double(first[p * channels + c]) - mean);
    }
    statistics.row<float>(g)[0] = float(mean);
    statistics.row<float>(g)[1] = float(1.0 / std::sqrt(squares / count + double(args.eps)));
  }
}

void group_norm_apply_cpu(const TensorView& x, const GroupNormArgs& args, const TensorView& statistics, const TensorView& y) {
  const std::int64_t pixels = x.rows(), channels = x.columns(), group_channels = channels / args.groups;
  const Tensor in = to_float_tensor(x);
  const Tensor weight = to_float_tensor(args.weight);
  const Tensor bias = to_float_tensor(args.bias);
  std::vector<float> out(static_cast<std::size_t>(channels));
  for (std::int64_t p = 0; p < pixels; ++p) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float* of_group = statistics.row<const float>(c / group_channels);
      float v = (in.as<float>()[p * channels + c] - of_group[0]) * of_group[1];
      v = v * weight.as<float>()[c] + bias.as<float>()[c];
      if (args.silu) v = v / (1.0f + std::exp(-v));
      out[std::size_t(c)] = v;
    }
    store_from_float(out.data(), channels, y.dtype, y.row_bytes(p));
  }
}

}  // namespace octavo
