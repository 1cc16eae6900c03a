#include "convert/output_error.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "quant/quantize.h"

namespace octavo {
namespace {

// Products of codes sum exactly in float32 as long as 127² · 256 < 2^24; float64 takes over between panels.
constexpr std::int64_t kPanel = 256;
using RowSums = std::array<double, InputStatistics::kSampleRows>;

// sums[m] += Σ_k w[k] · x[k, m]
template <class Weight>
void add_products(const Weight* w, const std::vector<float>& x, std::int64_t columns, std::int64_t rows, RowSums& sums) {
  for (std::int64_t first = 0; first < columns; first += kPanel) {
    std::array<float, InputStatistics::kSampleRows> panel{};
    for (std::int64_t k = first; k < std::min(columns, first + kPanel); ++k) {
      const auto weight = float(w[k]);
      const float* column = x.data() + k * rows;
      for (std::int64_t m = 0; m < rows; ++m) panel[std::size_t(m)] += weight * column[m];
    }
    for (std::int64_t m = 0; m < rows; ++m) sums[std::size_t(m)] += double(panel[std::size_t(m)]);
  }
}

}  // namespace

double OutputErrorSums::relative() const { return norm > 0 ? std::sqrt(error / norm) : 0; }

OutputProbe::OutputProbe(const InputStatistics& input, const std::vector<float>* smoothing, int group) : rows_(input.sample_rows()), columns_(input.columns()) {
  x_.resize(std::size_t(rows_ * columns_));
  codes_.resize(x_.size());
  scale_.resize(std::size_t(rows_));
  std::vector<float> row(static_cast<std::size_t>(columns_));
  std::vector<std::int8_t> q(row.size());
  for (std::int64_t m = 0; m < rows_; ++m) {
    std::copy_n(input.sample.begin() + m * columns_, columns_, row.begin());
    for (std::size_t k = 0; smoothing != nullptr && k < row.size(); ++k) row[k] /= (*smoothing)[k];
    if (group > 0) rotate_row(row.data(), columns_, group);
    scale_[std::size_t(m)] = quantize_row(row.data(), columns_, q.data());
    for (std::int64_t k = 0; k < columns_; ++k) {
      x_[std::size_t(k * rows_ + m)] = row[std::size_t(k)];
      codes_[std::size_t(k * rows_ + m)] = float(q[std::size_t(k)]);
    }
  }
}

OutputErrorSums OutputProbe::channel(const float* w, const std::int8_t* codes, float scale, double factor) const {
  RowSums exact{}, quantized{};
  add_products(w, x_, columns_, rows_, exact);
  add_products(codes, codes_, columns_, rows_, quantized);
  OutputErrorSums sums;
  for (std::int64_t m = 0; m < rows_; ++m) {
    const double y = factor * exact[std::size_t(m)];
    const double difference = factor * quantized[std::size_t(m)] * scale_[std::size_t(m)] * scale - y;
    sums.error += difference * difference;
    sums.norm += y * y;
  }
  return sums;
}

}  // namespace octavo
