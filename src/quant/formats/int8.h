// INT8 weights as files carry them, back to the weight that the model was trained with.
#pragma once

#include <cstdint>

namespace octavo {

// One row:   w = code · scale,  then w ← w R per group of `rotation_group` columns (0: not rotated). R is its own inverse: numerics.md section 6.
// float32, one rounding per operation. Codes may be -128.
void decode_int8_row(const std::int8_t* codes, std::int64_t count, float scale, int rotation_group, float* w);

// How a smoothing vector s entered the weight before it was quantised. Whatever was done to the column k of the weight is undone the same
// way on the activation, since W x = (W diag(s)) (x / s).
enum class Smoothing : std::uint8_t {
  none,
  divide,    // the usual: stored W · diag(s), so w[k] = stored[k] / s[k] and x[k] is divided by s[k]
  multiply,  // the vector was stored inverted: w[k] = stored[k] · s[k], x[k] is multiplied
};

// One row of the weight, or of the activation: x[k] ← x[k] / s[k] or x[k] · s[k].
void undo_smoothing(float* x, std::int64_t count, Smoothing smoothing, const float* s);

}  // namespace octavo
