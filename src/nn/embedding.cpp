#include "nn/embedding.h"

#include <fmt/format.h>

#include "nn/rows.h"
#include "octavo/error.h"
#include "ops/embed/embed.h"

namespace octavo::nn {

Embedding::Embedding(const WeightStore& store, const std::string& module) : stored_(&store.linear(module)) {
  if (stored_->format == LinearFormat::plain) plain_ = store.get(module + ".weight");
}

void Embedding::forward(ExecContext& ctx, std::span<const std::int32_t> ids, const TensorView& y) const {
  if (!y.device.is_cpu()) {  // the table stays in the file: a prompt reads a few of its rows
    Tensor rows(y.dtype, y.shape, {}, "embedded tokens");
    ExecContext host = ctx;
    host.device = {};
    forward(host, ids, rows);
    return copy_bytes(y.data, y.device, rows.as<void>(), Device{}, rows.bytes(), ctx.stream);
  }
  if (plain_.data != nullptr) return embed_rows(ctx, plain_, ids, y);
  const std::int64_t rows = stored_->out_features(), columns = stored_->in_features();
  std::vector<float> row(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= rows) {
      throw InvalidArgument(fmt::format("embedding '{}': token {} has id {}, but the table {} has rows 0 to {}; the tokenizer belongs to another model",
                                        stored_->module, i, ids[i], stored_->shape.text(), rows - 1));
    }
    decode_rows(*stored_, ids[i], 1, row.data());
    store_from_float(row.data(), columns, y.dtype, y.row_bytes(std::int64_t(i)));
  }
}

}  // namespace octavo::nn
