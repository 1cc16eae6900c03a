// group_norm over the pool. Statistics: float64 sums per channel over chunks of kChunk pixels, then chunks and channels in order, so the
// number of threads cannot be seen. Against the plain body only the order of float64 sums and SiLU's exponential differ.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/convert.h"
#include "cpu/row_math.h"
#include "cpu/slots.h"
#include "cpu/target.h"
#include "ops/group_norm/group_norm_backend.h"

namespace octavo {
namespace {

constexpr std::int64_t kChunk = 256;

OCTAVO_CPU_CLONES
void add_to(double* sums, const float* x, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) sums[c] += double(x[c]);
}

OCTAVO_CPU_CLONES
void add_squares_to(double* sums, const float* x, const double* means, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) sums[c] += (double(x[c]) - means[c]) * (double(x[c]) - means[c]);
}

OCTAVO_CPU_CLONES
void normalise(float* x, const float* means, const float* inv_deviations, const float* weight, const float* bias, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) x[c] = (x[c] - means[c]) * inv_deviations[c] * weight[c] + bias[c];
}

// Σ over all pixels of what `row(sums, pixel values)` adds to the float64 sums of a chunk; [C].
template <class Row>
std::vector<double> channel_sums(ThreadPool& pool, const TensorView& x, Row row) {
  const std::int64_t channels = x.columns();
  const std::int64_t chunks = (x.rows() + kChunk - 1) / kChunk;
  std::vector<double> partial(static_cast<std::size_t>(chunks * channels));
  pool.for_each(chunks, [&](std::int64_t chunk) {
    std::vector<float> values(static_cast<std::size_t>(channels));
    for (std::int64_t p = chunk * kChunk; p < std::min((chunk + 1) * kChunk, x.rows()); ++p) {
      cpu::load_floats(x.row_bytes(p), x.dtype, channels, values.data());
      row(partial.data() + chunk * channels, values.data());
    }
  });
  std::vector<double> total(static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < partial.size(); ++i) total[i % total.size()] += partial[i];
  return total;
}

// The mean over each group of channels of total / pixels, given back for every channel.
std::vector<double> group_means(const std::vector<double>& total, int groups, double pixels) {
  const std::size_t group_channels = total.size() / std::size_t(groups);
  std::vector<double> means(total.size());
  for (std::size_t start = 0; start < total.size(); start += group_channels) {
    double sum = 0;
    for (std::size_t c = start; c < start + group_channels; ++c) sum += total[c];
    for (std::size_t c = start; c < start + group_channels; ++c) means[c] = sum / (pixels * double(group_channels));
  }
  return means;
}

}  // namespace

void group_norm_statistics_cpu_fast(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics) {
  const std::int64_t channels = x.columns();
  if (x.shape.elements() == 0) return;
  const auto sums = channel_sums(*ctx.pool, x, [&](double* to, const float* row) { add_to(to, row, channels); });
  const auto means = group_means(sums, args.groups, double(x.rows()));
  const auto squares = channel_sums(*ctx.pool, x, [&](double* to, const float* row) { add_squares_to(to, row, means.data(), channels); });
  const auto variances = group_means(squares, args.groups, double(x.rows()));
  for (int g = 0; g < args.groups; ++g) {
    const std::size_t c = std::size_t(g * (channels / args.groups));
    statistics.row<float>(g)[0] = float(means[c]);
    statistics.row<float>(g)[1] = float(1.0 / std::sqrt(variances[c] + double(args.eps)));
  }
}

void group_norm_apply_cpu_fast(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics, const TensorView& y) {
  const std::int64_t channels = x.columns();
  if (x.shape.elements() == 0) return;
  const Tensor weight = to_float_tensor(args.weight);
  const Tensor bias = to_float_tensor(args.bias);
  std::vector<float> centers, inv_deviations;
  for (std::int64_t c = 0; c < channels; ++c) {
    const float* of_group = statistics.row<const float>(c / (channels / args.groups));
    centers.push_back(of_group[0]);
    inv_deviations.push_back(of_group[1]);
  }
  cpu::for_each_rows(*ctx.pool, x.rows(), channels, kChunk, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(channels));
    for (std::int64_t p = first; p < first + count; ++p) {
      cpu::load_floats(x.row_bytes(p), x.dtype, channels, values.data());
      normalise(values.data(), centers.data(), inv_deviations.data(), weight.as<float>(), bias.as<float>(), channels);
      if (args.silu) cpu::silu(values.data(), channels);
      cpu::store_floats(values.data(), channels, y.dtype, y.row_bytes(p));
    }
  });
}

}  // namespace octavo
