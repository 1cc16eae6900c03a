// From int32 sums to stored numbers, one element at a time. numerics.md section 5; each step is one rounded binary32 operation.
#pragma once

#include "cuda/convert.cuh"
#include "ops/linear/device/gemm_args.h"

namespace octavo::device {

// x + (-0) is x for every x, zero signs included: a missing bias costs no branch and changes no bit.
inline constexpr float kNoBias = -0.0f;

//   v = ((float(acc) · x_scale) · w_scale) + bias
__device__ __forceinline__ float scaled(int acc, float x_scale, float w_scale, float bias) {
  return __fadd_rn(__fmul_rn(__fmul_rn(__int2float_rn(acc), x_scale), w_scale), bias);
}

// v / (1 + exp(-v)), by way of exp(-|v|), which cannot overflow. exp and the quotient are the fast forms, (2 + 1.2 |v|) and 2 ulp: well below
// half a step of the 16-bit results of every hot use. One function for every kernel and output type: a choice of kernel changes no bit.
__device__ __forceinline__ float silu(float v) {
  const float e = __expf(-fabsf(v));
  return __fdividef(v >= 0 ? v : __fmul_rn(v, e), __fadd_rn(1.0f, e));
}

__device__ __forceinline__ float load_element(const void* row, Out type, std::int64_t index) {
  switch (type) {
    case Out::bf16:
      return cuda::float_of_bf16(static_cast<const std::uint16_t*>(row)[index]);
    case Out::f16:
      return cuda::float_of_f16(static_cast<const std::uint16_t*>(row)[index]);
    default:
      return static_cast<const float*>(row)[index];
  }
}

__device__ __forceinline__ void store_element(void* row, Out type, std::int64_t index, float value) {
  switch (type) {
    case Out::bf16:
      static_cast<std::uint16_t*>(row)[index] = cuda::bits_bf16(value);
      break;
    case Out::f16:
      static_cast<std::uint16_t*>(row)[index] = cuda::bits_f16(value);
      break;
    default:
      static_cast<float*>(row)[index] = value;
      break;
  }
}

__device__ __forceinline__ int element_bytes(Out type) { return type == Out::bf16 || type == Out::f16 ? 2 : 4; }

// Finishes and stores the sums of columns [first, first + kCount) of row m. kCount is even and `first` is even, so that (gate, up) pairs stay together.
// Any output type, epilogue, alignment and tail: the definition on the device, and the body of every path that is not hot.
template <int kCount>
__device__ __forceinline__ void finish_row_piece(const GemmArgs& args, const GemmOperand& op, std::int64_t m, int first, const int (&acc)[kCount],
                                                 std::int64_t split_offset = 0) {
  const int count = args.n - first < kCount ? args.n - first : kCount;
  if (args.out == Out::s32) {
    int* row = static_cast<int*>(op.y) + split_offset + m * op.y_stride;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < count) row[first + i] = acc[i];
    }
    return;
  }
  const float x_scale = op.x_scale[m];
  void* row = static_cast<char*>(op.y) + m * op.y_stride * element_bytes(args.out);
  const void* residual = op.residual == nullptr ? nullptr : static_cast<const char*>(op.residual) + m * op.residual_stride * element_bytes(args.out);
  float gate = 0;  // silu(v) of the even column, for silu_mul
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= count) break;
    const int n = first + i;
    float v = scaled(acc[i], x_scale, op.w_scale[n], op.bias == nullptr ? kNoBias : op.bias[n]);
    if (args.finish == Finish::silu_mul) {
      if (i % 2 == 0) {
        gate = silu(v);
      } else {
        store_element(row, args.out, n / 2, __fmul_rn(gate, v));
      }
      continue;
    }
    if (args.finish == Finish::silu) v = silu(v);
    if (op.mod_gate != nullptr) v = __fmul_rn(v, op.mod_gate[n]);
    if (residual != nullptr) v = __fadd_rn(v, load_element(residual, args.out, n));
    store_element(row, args.out, n, v);
  }
}

}  // namespace octavo::device
