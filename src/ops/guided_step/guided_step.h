// One step of the sampler: guidance, then Euler.
#pragma once

#include <optional>

#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo {

// z += step_length · (guidance · v_cond + (1 - guidance) · v_uncond);  without v_uncond: z += step_length · v_cond.
// All f32 of one shape, dense; every operation is one float32 rounding, so every device gives the same bits. z must not alias the velocities.
// step_length = sigma_j - sigma_{j+1}: velocities point from noise to data. spec section 8
void guided_step(ExecContext& ctx, const TensorView& z, const TensorView& v_cond, const std::optional<TensorView>& v_uncond, float guidance, float step_length);

}  // namespace octavo
