// A table of rows looked up by id, in whatever format the checkpoint stores it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ops/exec_context.h"
#include "tensor/tensor.h"
#include "weights/weight_store.h"

namespace octavo::nn {

class Embedding {
 public:
  Embedding() = default;
  // "<module>.weight" [V, K]. The store must have been checked and must outlive this.
  Embedding(const WeightStore& store, const std::string& module);

  // y[i,:] = table[ids[i],:]; only these rows are decoded. y f32/bf16/f16 [n, K], dense on a GPU. Throws InvalidArgument if an id is outside the table.
  void forward(ExecContext& ctx, std::span<const std::int32_t> ids, const TensorView& y) const;
  std::int64_t mapped_bytes() const { return stored_ == nullptr ? 0 : stored_->bytes; }

 private:
  const StoredLinear* stored_ = nullptr;
  TensorView plain_{};  // the table itself if it is stored in plain numbers
};

}  // namespace octavo::nn
