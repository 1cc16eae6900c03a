// The bodies behind quantize_rows.h. They trust their arguments: quantize_rows.cpp has checked them.
#pragma once

#include "ops/quantize/quantize_rows.h"

namespace octavo {

inline constexpr bool kQuantizeHasCuda = true;

void quantize_rows_cpu(const TensorView& x, const QuantizedView& out);
void quantize_rows_cpu_fast(ExecContext& ctx, const TensorView& x, const QuantizedView& out);
void quantize_rows_cuda(ExecContext& ctx, const TensorView& x, const QuantizedView& out);

}  // namespace octavo
