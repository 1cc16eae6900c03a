// What the numbers mean: formats of stored numbers and named recipes. Data, not a class hierarchy.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace octavo {

enum class Granularity : std::uint8_t { none, per_tensor, per_channel, per_token, per_group };

struct NumberFormat {
  DType storage = DType::f32;
  Granularity granularity = Granularity::none;
  int group = 0;

  bool is_quantized() const { return granularity != Granularity::none; }
};

// A recipe: how block linears store weights, how activations travel between ops, what sums are kept in.
// Quantised on both sides but summed in f32: both are dequantised first and multiplied as floats.
struct Precision {
  std::string_view name{};
  NumberFormat weight{};      // of the block linears; everything else stays as stored
  NumberFormat activation{};  // what a block linear reads
  DType accumulator = DType::f32;
  // What ops hand to each other on the CPU; on_gpu() says it for a GPU. numerics.md section 10
  DType rows = DType::f32;      // what a norm bounds: its result, the projections of that (q, k, v, the MLP's two), what attention mixes of v
  DType residual = DType::f32;  // what nothing bounds: the residual stream, what branches add to it, the product of the MLP's halves

  bool dequantizes() const { return activation.is_quantized() && accumulator == DType::f32; }
};

namespace precision {

// The whole list of what can be computed with.
inline constexpr Precision f32{"f32", {DType::f32}, {DType::f32}, DType::f32, DType::f32, DType::f32};
inline constexpr Precision bf16{"bf16", {DType::bf16}, {DType::bf16}, DType::f32, DType::bf16, DType::bf16};
// Three bits more than bf16, but nothing beyond 65504: the residual stream of a transformer goes there, so it stays float32.
inline constexpr Precision fp16{"fp16", {DType::f16}, {DType::f16}, DType::f32, DType::f16, DType::f32};
inline constexpr Precision w8a8{"w8a8", {DType::s8, Granularity::per_channel}, {DType::s8, Granularity::per_token}, DType::s32, DType::f32, DType::f32};
// For comparison. What the field called INT8 before integer products: quantise, dequantise, multiply in bf16.
inline constexpr Precision w8a8_dequant{"w8a8-dequant", {DType::s8, Granularity::per_channel}, {DType::s8, Granularity::per_token}, DType::f32, DType::f32,
                                        DType::f32};
// Weights alone: decoded to f32 and multiplied as floats.
inline constexpr Precision fp8{"fp8", {DType::f8_e4m3, Granularity::per_channel}, {DType::f32}, DType::f32, DType::f32, DType::f32};
inline constexpr Precision nf4{"nf4", {DType::u8, Granularity::per_group, 64}, {DType::f32}, DType::f32, DType::f32, DType::f32};  // two codes to a byte
inline constexpr std::array all{f32, bf16, fp16, w8a8, w8a8_dequant, fp8, nf4};

inline const Precision* find(std::string_view name) {
  for (const Precision& candidate : all) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

// Whether a GPU multiplies bf16 on its tensor cores. `sm`: compute capability, 75 for 7.5.
constexpr bool has_bf16(int sm) { return sm >= 80; }
inline constexpr int kNoOldGpu = 80;

// The same recipe where ops hand each other 16 bits because the weights are quantised anyway: what a GPU computes. Without bf16 tensor cores what is multiplied
// as floats is float16; the rest stays bf16, which any GPU can store. numerics.md section 10
inline Precision on_gpu(Precision precision, int sm = kNoOldGpu) {
  if (!precision.weight.is_quantized()) return precision;
  precision.residual = DType::bf16;
  precision.rows = has_bf16(sm) ? DType::bf16 : DType::f16;
  return precision;
}

// What a GPU computes the rest of the model in, text encoder and autoencoder, which are not quantised.
inline Precision plain_on_gpu(const Precision& precision, int sm = kNoOldGpu) {
  if (!precision.weight.is_quantized()) return precision;
  Precision plain = has_bf16(sm) ? bf16 : fp16;
  plain.residual = DType::bf16;
  return plain;
}

}  // namespace precision
}  // namespace octavo
