// A small vector on a GPU, as kernels read it.
#pragma once

#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo {

// The vector itself if it is f32, else a float32 copy in ctx.scratch, made on ctx.stream.
const float* as_f32_on_gpu(ExecContext& ctx, const TensorView& vector);

// An f32 vector [N] whose numbers alternate between two halves: (the first's, the second's) in ctx.scratch, made on ctx.stream.
float* halves_on_gpu(ExecContext& ctx, const TensorView& vector);

}  // namespace octavo
