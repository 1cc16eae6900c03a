// The bodies behind quantize_rows.h and dequantize_rows.h. They trust their arguments, which were checked.
#pragma once

#include "ops/quantize/dequantize_rows.h"
#include "ops/quantize/quantize_rows.h"

namespace octavo {

inline constexpr bool kQuantizeHasCuda = true;

void quantize_rows_cpu(const TensorView& x, const QuantizedView& out, const RowSmoothing& smoothing = {});
void quantize_rows_cpu_fast(ExecContext& ctx, const TensorView& x, const QuantizedView& out, const RowSmoothing& smoothing);
void quantize_rows_cuda(ExecContext& ctx, const TensorView& x, const QuantizedView& out, const RowSmoothing& smoothing);

void dequantize_rows_cpu(ExecContext& ctx, const QuantizedView& x, const TensorView& y);
void dequantize_rows_cuda(ExecContext& ctx, const QuantizedView& x, const TensorView& y);

}  // namespace octavo
