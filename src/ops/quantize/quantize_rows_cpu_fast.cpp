// quantize_rows over the pool; bit-equal to the plain body.
#include <vector>

#include "cpu/slots.h"
#include "ops/quantize/quantize_backend.h"
#include "ops/row_store.h"

namespace octavo {

void quantize_rows_cpu_fast(ExecContext& ctx, const TensorView& x, const QuantizedView& out, const RowSmoothing& smoothing) {
  cpu::for_each_rows(*ctx.pool, x.rows(), x.columns(), kRowChunk, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> row(static_cast<std::size_t>(x.columns()));
    for (std::int64_t m = first; m < first + count; ++m) {
      cpu::load_floats(x.row_bytes(m), x.dtype, x.columns(), row.data());
      undo_smoothing(row.data(), x.columns(), smoothing.way, smoothing.s.as<float>());
      store_row_fast(row.data(), m, out);
    }
  });
}

}  // namespace octavo
