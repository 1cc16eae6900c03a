#include "ops/embed/embed.h"

#include <cmath>
#include <vector>

#include "base/build.h"
#include "ops/checks.h"
#include "ops/embed/embed_backend.h"
#include "ops/op_work.h"

namespace octavo {

void embed_rows(ExecContext& ctx, const TensorView& table, std::span<const std::int32_t> ids, const TensorView& y) {
  constexpr std::string_view op = "embed_rows";
  check_float_matrix(op, "table", table, table.rows(), table.columns(), y.device);
  check_float_matrix(op, "y", y, std::int64_t(ids.size()), table.columns(), y.device);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= table.rows()) {
      throw InvalidArgument(fmt::format("{}: token {} has id {}, but the table {} has rows 0 to {}; the tokenizer belongs to another model", op, i, ids[i],
                                        table.shape.text(), table.rows() - 1));
    }
  }
  const OpSpan span(ctx, [&] { return row_work(op, y, 2 * bytes_of_rows(y)); });
  if (y.device.is_cpu()) return embed_rows_cpu(table, ids, y);
  if constexpr (build::has_cuda && kEmbedHasCuda) return embed_rows_cuda(ctx, table, ids, y);
  no_gpu_body(op);
}

void time_sinusoid(float t, const TensorView& y) {
  constexpr std::string_view op = "time_sinusoid";
  const std::int64_t columns = y.shape.elements();
  check_vector(op, "y", y, DType::f32, columns, Device{});
  if (columns % 2 != 0 || columns < 4) throw InvalidArgument(fmt::format("{}: y has {} columns; an even number of at least 4 is needed", op, columns));
  const std::int64_t half = columns / 2;
  const float rate = float(std::log(10000.0) / double(half - 1));
  for (std::int64_t k = 0; k < half; ++k) {
    const float frequency = std::exp(-(float(k) * rate));
    const float angle = (10000.0f * t) * frequency;
    y.as<float>()[k] = float(std::sin(double(angle)));
    y.as<float>()[half + k] = float(std::cos(double(angle)));
  }
}

}  // namespace octavo
