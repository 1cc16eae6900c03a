// The definition of embed_rows. No faster body: a prompt is at most some thousand rows, once per picture.
#include <vector>

#include "ops/embed/embed_backend.h"

namespace octavo {

void embed_rows_cpu(const TensorView& table, std::span<const std::int32_t> ids, const TensorView& y) {
  std::vector<float> row(static_cast<std::size_t>(table.columns()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    load_as_float(table.row_bytes(ids[i]), table.dtype, table.columns(), row.data());
    store_from_float(row.data(), y.columns(), y.dtype, y.row_bytes(std::int64_t(i)));
  }
}

}  // namespace octavo
