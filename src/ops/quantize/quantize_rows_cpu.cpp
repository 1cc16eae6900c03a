// The definition of quantize_rows; the arithmetic is quantize_row's.
#include <vector>

#include "ops/quantize/quantize_backend.h"
#include "ops/row_store.h"

namespace octavo {

void quantize_rows_cpu(const TensorView& x, const QuantizedView& out) {
  std::vector<float> row(static_cast<std::size_t>(x.columns()));
  for (std::int64_t m = 0; m < x.rows(); ++m) {
    load_as_float(x.row_bytes(m), x.dtype, x.columns(), row.data());
    store_row(row.data(), m, out);
  }
}

}  // namespace octavo
