// The LoRAs of one request: opened, checked against the model, put in their places.
#pragma once

#include <span>
#include <vector>

#include "base/observer.h"
#include "octavo/request.h"
#include "pipeline/model_index.h"
#include "weights/lora.h"

namespace octavo {

class RequestLoras {
 public:
  // Tells the observer how many keys of each file apply. Throws as LoraFile and fit_lora do, before a weight of the model is read.
  RequestLoras(std::span<const LoraSource> sources, const ModelIndex& model, Observer& observer);

  // What acts on each denoiser; null: nothing. Lives as long as this.
  const LoraTerms* conditional() const { return conditional_.empty() ? nullptr : &conditional_; }
  const LoraTerms* unconditional() const { return unconditional_.empty() ? nullptr : &unconditional_; }

 private:
  std::vector<LoraFile> files_{};  // the terms point into them
  LoraTerms conditional_{}, unconditional_{};
};

}  // namespace octavo
