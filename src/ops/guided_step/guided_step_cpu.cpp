// The definition of guided_step. No faster body: 0.5 million numbers a step at 1024x1024.
#include "ops/guided_step/guided_step_backend.h"

namespace octavo {

void guided_step_cpu(float* z, const float* v_cond, const float* v_uncond, float guidance, float step_length, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float v = v_uncond == nullptr ? v_cond[i] : guidance * v_cond[i] + (1.0f - guidance) * v_uncond[i];
    z[i] = z[i] + step_length * v;
  }
}

}  // namespace octavo
