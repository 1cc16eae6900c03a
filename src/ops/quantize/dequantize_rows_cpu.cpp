// The definition of dequantize_rows; the arithmetic is decode_int8_row's.
#include <vector>

#include "cpu/slots.h"
#include "ops/quantize/quantize_backend.h"
#include "ops/row_store.h"

namespace octavo {

void dequantize_rows_cpu(ExecContext& ctx, const QuantizedView& x, const TensorView& y) {
  cpu::for_each_rows(*ctx.pool, y.rows(), y.columns(), kRowChunk, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> row(static_cast<std::size_t>(y.columns()));
    for (std::int64_t m = first; m < first + count; ++m) {
      decode_int8_row(x.q.row<std::int8_t>(m), y.columns(), x.scale.as<float>()[m], 0, row.data());
      store_from_float(row.data(), y.columns(), y.dtype, y.row_bytes(m));
    }
  });
}

}  // namespace octavo
