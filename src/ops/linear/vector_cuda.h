// A small vector on a GPU, as float32.
#pragma once

#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo {

// The vector itself if it is f32, else a float32 copy in ctx.scratch, made on ctx.stream.
const float* as_f32_on_gpu(ExecContext& ctx, const TensorView& vector);

}  // namespace octavo
