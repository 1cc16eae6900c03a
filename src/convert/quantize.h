// A component's checkpoint into an int8 file that ComfyUI's native loader and this program read: "int8_tensorwise", with or without ConvRot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/observer.h"
#include "base/thread_pool.h"
#include "convert/recipe.h"
#include "tensor/tensor.h"

namespace octavo {

// What became of one matrix.
struct QuantizedLayer {
  std::string module{};
  Shape shape{};
  std::string before{};  // "bf16", "fp8, row scales"
  std::string after{};   // "int8", "int8, rotated by 64", "kept: sensitive", "kept: as asked", "kept: worst output", "int8 as it was"
  bool is_quantized = false;
  int rotation_group = 0;
  double relative_error = 0;  // ‖w - dequantised‖ / ‖w‖
  double outlier_ratio = 0;   // max |w| / root mean square of w, before rotation
  double output_error = -1;   // ‖ŷ - y‖ / ‖y‖ as int8 on rows that it read in calibration; of a kept layer: what int8 would have cost; < 0: not measured
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;

  bool was_measured() const { return output_error >= 0; }
};

// 20 log10(1 / relative_error); 999 if there is none.
double snr_db(double relative_error);

struct QuantizeReport {
  std::string recipe{};
  std::string source_hash{};  // of the bytes of all tensors, in the order of their names
  std::vector<QuantizedLayer> layers{};
  std::vector<std::string> remarks{};
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;
  int resumed_layers = 0;  // finished by an earlier run that was stopped
};

// Reads `in` (whatever WeightStore reads), writes `out`. Layer by layer: memory beyond the map is one layer's codes. A run that was killed goes on
// where it stopped; the file appears when it is whole. Same input and recipe, same bytes.
//   <m>.weight I8 [N, K], <m>.weight_scale F32 [N, 1], <m>.comfy_quant U8 JSON; everything else as it was (formats that are not plain: bf16).
// numerics.md sections 2, 6. Layers that are int8 already are copied, never quantised again.
// Throws InvalidArgument if in and out are the same file, DataError and Unsupported as WeightStore does, Cancelled if the observer asks.
QuantizeReport quantize_checkpoint(const std::filesystem::path& in, const std::filesystem::path& out, const QuantizeRecipe& recipe, ThreadPool& pool,
                                   Observer& observer);

}  // namespace octavo
