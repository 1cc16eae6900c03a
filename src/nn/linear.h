// A projection as a checkpoint has it: one matrix or several stacked along the outputs, each in its own format, run as it is or quantised once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nn/footprint.h"
#include "nn/rows.h"
#include "ops/exec_context.h"
#include "ops/linear/linear.h"
#include "ops/row_output.h"
#include "quant/precision.h"
#include "tensor/tensor.h"
#include "weights/weight_store.h"

namespace octavo::nn {

// One matrix of a Linear. Several may name the same module: then each takes `rows` consecutive rows of it, in order.
struct LinearPart {
  std::string module{};   // "<module>.weight" [out, in] (trailing axes of 1 allowed) in any stored format, "<module>.bias" [out]
  std::int64_t rows = 0;  // 0: all that are left
};

// What a projection's weights become.
struct LinearUse {
  NumberFormat format{};
  bool keep_int8 = false;       // int8 in the file runs as it is even where the format asks for floats (layers outside the blocks in w8a8)
  bool pairs_rows = false;      // for the epilogue silu_mul: on a GPU, int8 rows of the two halves alternate, unless dequantised (see Linear::has_pairs)
  bool dequantizes = false;     // int8 on both sides is turned back into bf16 before the product: Precision::dequantizes
  DType decoded = DType::bf16;  // what a GPU multiplies a weight in 4 or 8 bits as, and if f16, a plain layer of an int8 file

  LinearUse() = default;
  LinearUse(const NumberFormat& weights, bool keeps_int8 = false, bool turns_back = false)  // NOLINT: a format alone says it too
      : format(weights), keep_int8(keeps_int8), dequantizes(turns_back) {}
  // Of a layer inside the blocks.
  explicit LinearUse(const Precision& precision) : LinearUse(precision.weight, precision.activation.is_quantized(), precision.dequantizes()) {
    if (precision.rows == DType::f16) decoded = DType::f16;
  }
};

// What a projection will be on a GPU, from the file's headers alone.
struct LinearPlan {
  Footprint memory{};
  RowFormat input{};       // what its forward wants to read
  bool has_int8 = false;   // in at least one part: floats are then quantised in scratch
  bool has_pairs = false;  // as Linear::has_pairs
  bool rounds_x = false;   // a GPU rounds wider rows to f16 in scratch, with a scale a row (LinearWeights::rounds_x)
  std::int64_t in_features = 0;
  std::int64_t dequantized_rows = 0;  // of the weight at a time; 0: the precision does not dequantise

  // Takes what forward() holds for `rows` rows of floats of type x, or of codes (s8) as input() asks for them. Without the workspaces of the ops.
  void take_scratch(ScratchCount& scratch, Device device, std::int64_t rows, DType x) const;
};
// As Linear(ctx, store, parts, has_bias, use) on a GPU. Throws as the store does.
LinearPlan plan_linear(const WeightStore& store, const std::vector<LinearPart>& parts, bool has_bias, const LinearUse& use);

class Linear {
 public:
  Linear() = default;

  // y = x [W_0; W_1; ...]ᵀ + bias. Outputs of part i stand in y's columns behind those of the parts before it.
  //   format none, f32      plain numbers read from the map (f32, bf16, f16); other formats decoded to f32, a panel of rows at a time, in every forward
  //   format none, bf16     the same in bf16; f32 or f16 in the file is rounded to an own bf16 copy
  //   format none, f16      the same in f16; a number that would become infinite there is a DataError that names the tensor
  //   format s8 per channel int8 in the file runs as it is, never requantised, and the layers that such a file left plain stay plain;
  //                         without int8 in the file: one own matrix and its scales, numerics.md section 2; every stored weight is read once and
  //                         its pages are released
  //   format e4m3 per channel, u8 per group of 64 (NF4): as the file has it if it has that format, else quantised once at load; decoded as above
  // A fused checkpoint gives the same bits as a split one if the caller names the same part sizes: each part is one product.
  // On a GPU everything is copied there: parts of one kind (with the same smoothing) become one matrix, floats are rounded to bf16 or
  // f16 if the format is that, formats that the CPU decodes in every forward are decoded once (to bf16 or f16 if the format asks for such floats, to
  // use.decoded if it is a quantised one, else to f32).
  // A store of random weights (WeightStore::is_random) gives random ones, drawn where they are used: of spread 1 / sqrt(K), one matrix of all parts. Only if
  // ctx.draws_weights; else DataError.
  // The store must have been checked and must outlive this. Throws Unsupported for other formats.
  Linear(ExecContext& ctx, const WeightStore& store, const std::vector<LinearPart>& parts, bool has_bias, const LinearUse& use);

  // x: rows in the form of input(), or floats, which are then smoothed, rotated and quantised here. y [M, out], may be a slice of wider rows.
  void forward(ExecContext& ctx, const RowOutput& x, const Epilogue& epilogue, const TensorView& y) const;

  // The form in which all parts can read the rows without further work: codes only if all are int8 with one rotation and no smoothing.
  RowFormat input() const;

  // bias[n] += row[n], once, in float32: a constant row that a model adds to the result anyway. One part with a bias only.
  void add_to_bias(ExecContext& ctx, const TensorView& row);

  // Rows n and N/2 + n of the weight stand behind each other, so that the epilogue silu_mul applies; without an epilogue y has its halves side by side all the
  // same. Only if asked for, on a GPU, with one int8 matrix without bias that is multiplied as such.
  bool has_pairs() const { return has_pairs_; }

  // Its int8 codes become bf16 again before the product.
  bool dequantizes() const { return dequantizes_; }

  std::int64_t out_features() const;
  std::int64_t in_features() const;
  // The matrices as ops see them: one if quantised, else one per part. The weight of a part that is decoded in panels has no memory.
  std::span<const LinearWeights> parts() const { return parts_; }
  std::int64_t owned_bytes() const;
  std::int64_t mapped_bytes() const { return mapped_bytes_; }

  // For BlockStream: the windows onto weights, scales and biases, dense each, to be copied and pointed elsewhere; then the memory behind them is let go.
  std::vector<TensorView*> weight_views();
  void let_go();

 private:
  // Where a part comes from. Rows [first_row, first_row + rows of the part) of `stored`.
  struct Source {
    const StoredLinear* stored = nullptr;
    std::int64_t first_row = 0;
    bool is_decoded = false;  // panel by panel, in forward
  };

  void add_int8(const StoredLinear& stored, LinearWeights weights, std::int64_t first_row, std::int64_t rows);
  void add_float(ExecContext& ctx, const WeightStore& store, const StoredLinear& stored, LinearWeights weights, std::int64_t first_row, std::int64_t rows,
                 DType dtype);
  void quantize(ExecContext& ctx, const WeightStore& store);
  void forward_decoded(ExecContext& ctx, const TensorView& x, std::size_t part, const Epilogue& epilogue, const TensorView& y) const;
  void forward_dequantized(ExecContext& ctx, const QuantizedView& x, std::size_t part, const Epilogue& epilogue, const TensorView& y) const;
  const StoredLinear& encoded(ExecContext& ctx, const StoredLinear& stored, std::int64_t first_row, std::int64_t rows, const NumberFormat& format);
  void move_to_gpu(ExecContext& ctx, const WeightStore& store, bool pairs_rows);
  void draw(ExecContext& ctx, const WeightStore& store, const std::vector<LinearPart>& parts, bool has_bias, const LinearUse& use);
  void pair_rows(ExecContext& ctx);
  QuantizedView quantized_rows(ExecContext& ctx, const TensorView& x, std::size_t part) const;

  std::vector<LinearWeights> parts_{};
  std::vector<Source> sources_{};  // beside parts_; empty once quantised
  // A matrix in another format than the file's.
  struct Encoded {
    StoredLinear linear{};
    std::vector<std::uint8_t> codes{};
    std::vector<float> absmax{};
  };

  std::vector<Tensor> owned_{};
  std::vector<std::unique_ptr<Encoded>> encoded_{};  // sources_ point to them
  bool dequantizes_ = false;
  bool has_pairs_ = false;
  std::string component_{};  // of the store, for those who watch
  std::int64_t mapped_bytes_ = 0;
};

}  // namespace octavo::nn
