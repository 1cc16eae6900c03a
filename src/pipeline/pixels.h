// The last step: decoder output in [-1, 1] to what people see. spec section 2, step 10
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace octavo {

// rint((clamp(x, -1, 1) + 1) * 127.5), half to even. f32, dense. NaN gives 0; the caller has looked for it (all_finite).
std::vector<std::uint8_t> to_bytes(const TensorView& decoded);
// (clamp(x, -1, 1) + 1) / 2, the same picture before the rounding, into `out` of the same shape.
void to_unit_range(const TensorView& decoded, const TensorView& out);

bool all_finite(const TensorView& tensor);  // f32, dense

}  // namespace octavo
