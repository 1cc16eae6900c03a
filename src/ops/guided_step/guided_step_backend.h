// The bodies behind guided_step.h. They trust their arguments: guided_step.cpp has checked them. `v_uncond` null: absent.
#pragma once

#include <cstdint>

#include "ops/guided_step/guided_step.h"

namespace octavo {

inline constexpr bool kGuidedStepHasCuda = true;

void guided_step_cpu(float* z, const float* v_cond, const float* v_uncond, float guidance, float step_length, std::int64_t count);
// Enqueues on `stream` (a cudaStream_t).
void guided_step_cuda(float* z, const float* v_cond, const float* v_uncond, float guidance, float step_length, std::int64_t count, Device device, void* stream);

}  // namespace octavo
