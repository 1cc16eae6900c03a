// From what one GPU measured to what another should do: every op's time as a formula of the GPU's data sheet, times how far this GPU was from the formula.
// Guesses, with bars that say how wide; whoever prints them says "predicted".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/device.h"
#include "pipeline/model_run.h"

namespace octavo {

struct Range {
  double low = 0, mid = 0, high = 0;

  Range& operator+=(const Range& other);
  Range operator*(double factor) const { return {low * factor, mid * factor, high * factor}; }
};

// Seconds of an int8 product on a GPU, or 0 if no kernel takes it: estimate_gemm_seconds of the best kernel.
using Int8Estimate = std::function<double(const OpRow& row, const DeviceCaps& caps)>;

// Ops whose measured time stands in one relation to their formula: "linear s8", "attention bf16", "gated_residual_norm".
std::string class_of(const OpRow& row);

// measured = factor · formula for the ops of one class on the measured GPU. The formula: Int8Estimate for int8 products, else OpRow's limit.
// mid: all time over all formula time. low, high: the least and the largest of any op with at least 2 % of the class's time.
struct Calibration {
  std::string name{};
  double share_of_step = 0;
  int kinds = 0;  // ops that differ
  Range factor{};
};
std::vector<Calibration> calibrate(const ModelRun& run, const Int8Estimate& estimate);

struct PredictedRun {
  Range step{}, image{};
  double streamed_bytes = 0;  // of weights that do not fit, per step
};

// The same step and image on `gpu`. What calibration cannot carry over is assumed instead:
//   attention, measured on wgmma, elsewhere on mma.sync: a share of its tensor cores' limit, measured in the clocks of a GeForce or of a large chip
//   (model_predict.cpp); in w8a8 on a GeForce it is the int8 one, with its codes (ops/attention/attention_choice.h)
//   float products and attention before sm_80, which have plain kernels only: 30 % of the float32 units, 15 to 50 %
//   everything else: the factor of its class, 15 % wider on both sides
//   gaps: as long as measured.   Weights beyond 92 % of the memory: streamed each step over PCIe (12 GB/s before sm_80, 24, from sm_120 on 48),
//   hidden behind the work at best and not at all at worst.
PredictedRun predict_run(const ModelRun& run, const std::vector<Calibration>& factors, const DeviceCaps& gpu, const Int8Estimate& estimate);

// Markdown for docs/gpus.md: the calibration, then a row per size and GPU. Runs of other precisions than w8a8 are left out.
std::string prediction_page(const std::vector<ModelRun>& runs, const std::vector<DeviceCaps>& gpus, const Int8Estimate& estimate);

}  // namespace octavo
