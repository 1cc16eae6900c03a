// What quantising a layer does to what it computes, on rows that it read in calibration.
//   y[m,n] = Σ_k x[m,k] w[n,k],   ŷ[m,n] = s_x[m] · s_w[n] · Σ_k q_x[m,k] q_w[n,k],   error = ‖ŷ − y‖ / ‖y‖    numerics.md sections 2 to 6
// Smoothing and rotation come first, as they do when the file runs; the bias, which is the same on both sides, is left out.
#pragma once

#include <cstdint>
#include <vector>

#include "convert/calibration.h"

namespace octavo {

// ‖ŷ − y‖² and ‖y‖², in float64.
struct OutputErrorSums {
  double error = 0;
  double norm = 0;
  OutputErrorSums& operator+=(const OutputErrorSums& other) {
    error += other.error;
    norm += other.norm;
    return *this;
  }
  double relative() const;
};

// The sampled rows of one layer as its int8 body reads them.
class OutputProbe {
 public:
  // `smoothing`: the vector that the weight's columns were multiplied by, or null. `group`: 0 or the rotation, which must divide the columns.
  OutputProbe(const InputStatistics& input, const std::vector<float>* smoothing, int group);

  bool is_empty() const { return rows_ == 0; }
  // One output channel: its weights [K], smoothed and rotated, their codes and scale. `factor`: what the output is to be multiplied by to be that of
  // the unsmoothed model. Call from any thread.
  OutputErrorSums channel(const float* w, const std::int8_t* codes, float scale, double factor) const;

 private:
  std::int64_t rows_ = 0, columns_ = 0;
  std::vector<float> x_{};      // [K, rows]: a product over k then runs along rows
  std::vector<float> codes_{};  // [K, rows]
  std::vector<float> scale_{};  // [rows]
};

}  // namespace octavo
