// The bodies behind attention_int8.h. They trust their arguments: attention_int8.cpp has checked them.
#pragma once

#include <bit>
#include <cstdint>

#include "ops/attention/attention_int8.h"
#include "ops/attention/attention_int8_launch.h"

namespace octavo {

// What the two products read.
struct AttentionCodes {
  TensorView q{}, k{};              // s8 [Lq, heads · D], [Lk, kv_heads · D]
  TensorView q_scale{}, k_scale{};  // f32 [heads, Lq], [kv_heads, Lk]
  TensorView v{};                   // f16 [Lk, kv_heads · D]: v · unit
  TensorView v_unit{};              // f32 [kv_heads]
};

// Room for them in ctx.scratch.
AttentionCodes scratch_codes(ExecContext& ctx, const TensorView& q, const TensorView& k, const AttentionArgs& args);

inline float value_unit(std::uint32_t absmax_bits) { return std::bit_cast<float>(value_unit_bits(absmax_bits)); }

void attention_codes_cpu(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const AttentionCodes& codes);
void attention_product_cpu(ThreadPool& pool, const AttentionCodes& codes, const AttentionArgs& args, const TensorView& y);

void check_attention_int8_cuda(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y);
// The same codes, scales and units, bit for bit.
void attention_codes_cuda(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args,
                          const AttentionCodes& codes);
// What the kernel gets.
AttentionInt8Launch product_launch(const AttentionCodes& codes, const AttentionArgs& args, const TensorView& y);
void attention_product_cuda(ExecContext& ctx, const AttentionCodes& codes, const AttentionArgs& args, const TensorView& y);

}  // namespace octavo
