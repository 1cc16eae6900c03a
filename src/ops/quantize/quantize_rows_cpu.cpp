// The definition of quantize_rows; the arithmetic is undo_smoothing's, rotate_row's and quantize_row's.
#include <vector>

#include "ops/quantize/quantize_backend.h"
#include "ops/row_store.h"

namespace octavo {

void quantize_rows_cpu(const TensorView& x, const QuantizedView& out, const RowSmoothing& smoothing) {
  std::vector<float> row(static_cast<std::size_t>(x.columns()));
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    load_as_float(x.row_bytes(m), x.dtype, x.columns(), row.data());
    undo_smoothing(row.data(), x.columns(), smoothing.way, smoothing.s.as<float>());
    store_row(row.data(), m, out);
  }
}

}  // namespace octavo
