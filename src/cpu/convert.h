// load_as_float and store_from_float for the hot paths: the same bits, wider registers.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace octavo::cpu {

// f32, bf16 or f16, any alignment of the element's own size.
void load_floats(const void* from, DType dtype, std::int64_t count, float* to);
void store_floats(const float* from, std::int64_t count, DType dtype, void* to);

}  // namespace octavo::cpu
