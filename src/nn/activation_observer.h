// For calibration: an observer that also sees what every projection reads.
#pragma once

#include <string_view>

#include "base/observer.h"
#include "tensor/tensor.h"

namespace octavo::nn {

// A forward call whose ExecContext carries one reports the float rows that each projection reads, before smoothing, rotation and quantisation.
// Rows that reach a projection already quantised are not seen, so calibrate in a precision whose activations are floats.
class ActivationObserver : public Observer {
 public:
  // x: f32, bf16 or f16 [M, K]. Called from the thread that calls forward.
  virtual void on_activations(std::string_view component, std::string_view module, const TensorView& x) = 0;
};

}  // namespace octavo::nn
