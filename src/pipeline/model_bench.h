// One model of random weights on one GPU, measured part by part. CUDA builds only.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "pipeline/model_run.h"
#include "quant/precision.h"

namespace octavo {

struct ModelBenchQuestion {
  std::string model{};  // as models::random_model_names
  std::vector<int> sizes{1024};
  int text = 256;  // tokens; 0: no text encoder, and the conditional branch runs without text
  int steps = 48;
  Precision precision = precision::w8a8;
  Device device{};
  bool quick = false;                                  // a third of the timings
  std::function<std::string()> gpu_state{};            // one line, asked before and after
  std::function<void(const std::string&)> progress{};  // one line a part; may be empty
};

// One run per size; the weights are loaded once. Throws OutOfMemory if both denoisers and the autoencoder do not fit together.
std::vector<ModelRun> bench_model(const ModelBenchQuestion& question);

}  // namespace octavo
