// A projection as a checkpoint has it: one matrix or several stacked along the outputs, read where it lies or quantised once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/exec_context.h"
#include "ops/linear/linear.h"
#include "ops/row_output.h"
#include "quant/precision.h"
#include "tensor/tensor.h"
#include "weights/weight_store.h"

namespace octavo::nn {

// One matrix of a Linear. Several may name the same module: then each takes `rows` consecutive rows of it, in order.
struct LinearPart {
  std::string module{};   // "<module>.weight" [out, in] (trailing axes of 1 allowed), "<module>.bias" [out]
  std::int64_t rows = 0;  // 0: all that are left
};

class Linear {
 public:
  Linear() = default;

  // y = x [W_0; W_1; ...]ᵀ + bias. Outputs of part i stand in y's columns behind those of the parts before it.
  //   format none, f32      the stored numbers, read from the map (f32, bf16, f16)
  //   format none, bf16     the same; f32 or f16 in the file is rounded to an own bf16 copy
  //   format s8 per channel one own matrix and its scales, numerics.md section 2; every stored weight is read once and its pages are released
  // A fused checkpoint gives the same bits as a split one if the caller names the same part sizes: each part is one product.
  // The store must have been checked and must outlive this. Throws Unsupported for other formats, or on a GPU (not yet).
  Linear(ExecContext& ctx, const WeightStore& store, const std::vector<LinearPart>& parts, bool has_bias, const NumberFormat& format);

  // x: rows in the form that the format reads. y [M, out], may be a slice of wider rows.
  void forward(ExecContext& ctx, const RowOutput& x, const Epilogue& epilogue, const TensorView& y) const;

  // bias[n] += row[n], once, in float32: a constant row that a model adds to the result anyway. Only without quantisation.
  void add_to_bias(const TensorView& row);

  std::int64_t out_features() const;
  std::int64_t in_features() const;
  // The matrices as ops see them: one if quantised, else one per part.
  std::span<const LinearWeights> parts() const { return parts_; }
  std::int64_t owned_bytes() const;
  std::int64_t mapped_bytes() const { return mapped_bytes_; }

 private:
  void quantize(ExecContext& ctx, const WeightStore& store, const std::vector<LinearPart>& stored);

  std::vector<LinearWeights> parts_{};
  std::vector<Tensor> owned_{};
  std::int64_t mapped_bytes_ = 0;
};

}  // namespace octavo::nn
