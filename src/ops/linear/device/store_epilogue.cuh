// The epilogues of gemm_mma.cuh that store y. Included by it.
//
// Lane l holds of an m16 block and a group of four n8 blocks rows g, g + 8 and columns 8t … 8t + 7, g = l / 4, t = l % 4: the rows of w were put in
// that order (cuda/fragment_lanes.h). So 16-bit results leave as whole 16-byte groups, four lanes fill 64 bytes of a row, and no lane needs
// another's sums. Only the two hot epilogues (16-bit y, plain or silu(gate)·up, all columns of the warp within N) do; all others finish columns
// one by one: any output type, any tail, any alignment.
#pragma once

#include <cstdint>

#include "ops/linear/device/finish.cuh"
#include "ops/linear/device/gemm_mma.cuh"

namespace octavo::device {

template <class T>
struct StoreEpilogue {
  __device__ __forceinline__ void operator()(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, const TileScales& scales, int m0,
                                             int n0, int lane) const {
    if (m0 >= op.m || n0 >= args.n) return;
    const bool whole = n0 + T::kWarpN <= args.n;  // the test of every store for its own made a chain of branches of them
    const bool hot = (args.out == Out::bf16 || args.out == Out::f16) && op.y_aligned != 0 && whole;
    if (hot && args.finish == Finish::plain) {
      if (args.out == Out::bf16) return store_16<true>(op, product, scales, m0, n0, lane);
      return store_16<false>(op, product, scales, m0, n0, lane);
    }
    if (hot && args.finish == Finish::silu_mul) return store_silu_mul(args, op, product, scales, m0, n0, lane);
    store_any(args, op, product, m0, n0, lane);
  }

  // Scales and biases (or what changes nothing) of the eight columns of a lane in a group.
  struct Columns {
    float scale[8], bias[8];
  };
  static __device__ __forceinline__ Columns columns_of(const GemmOperand& op, const TileScales& scales, int n0, int column) {
    Columns c;
    const float4 low = *reinterpret_cast<const float4*>(scales.w + column);
    const float4 high = *reinterpret_cast<const float4*>(scales.w + column + 4);
    c.scale[0] = low.x, c.scale[1] = low.y, c.scale[2] = low.z, c.scale[3] = low.w;
    c.scale[4] = high.x, c.scale[5] = high.y, c.scale[6] = high.z, c.scale[7] = high.w;
#pragma unroll
    for (int i = 0; i < 8; ++i) c.bias[i] = kNoBias;
    if (op.bias != nullptr) {
#pragma unroll
      for (int i = 0; i < 8; ++i) c.bias[i] = __ldg(op.bias + n0 + column + i);
    }
    return c;
  }

  template <bool kBf16>
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    if constexpr (kBf16) return cuda::pack_bf16x2(low, high);
    return cuda::pack_f16x2(low, high);
  }

  template <bool kBf16>
  static __device__ __forceinline__ void store_16(const GemmOperand& op, const WarpProduct<T>& product, const TileScales& scales, int m0, int n0, int lane) {
    const int g = lane >> 2;
    const int t = lane & 3;
    std::uint16_t* const y = static_cast<std::uint16_t*>(op.y) + (m0 + g) * op.y_stride + n0 + 8 * t;
    const int rows = op.m - m0 - g;
#pragma unroll
    for (int group = 0; group < T::kBlocksN / 4; ++group) {
      const int column = group * cuda::kGroupRows + 8 * t;
      const Columns c = columns_of(op, scales, n0, column);
#pragma unroll
      for (int m = 0; m < T::kBlocksM; ++m) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          const int row = m * kMmaM + upper * 8;  // below row g
          const float x_scale = scales.x[row + g];
          std::uint32_t word[4];
#pragma unroll
          for (int block = 0; block < 4; ++block) {
            const int* acc = product.acc[m][4 * group + block] + 2 * upper;
            word[block] = pack<kBf16>(scaled(acc[0], x_scale, c.scale[2 * block], c.bias[2 * block]),
                                      scaled(acc[1], x_scale, c.scale[2 * block + 1], c.bias[2 * block + 1]));
          }
          if (row < rows) *reinterpret_cast<uint4*>(y + row * op.y_stride + group * cuda::kGroupRows) = make_uint4(word[0], word[1], word[2], word[3]);
        }
      }
    }
  }

  // Four (gate, up) pairs of a lane give 8 bytes, four lanes 32.
  static __device__ __forceinline__ void store_silu_mul(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, const TileScales& scales,
                                                        int m0, int n0, int lane) {
    const int g = lane >> 2;
    const int t = lane & 3;
    const bool is_bf16 = args.out == Out::bf16;
    std::uint16_t* const y = static_cast<std::uint16_t*>(op.y) + (m0 + g) * op.y_stride + n0 / 2 + 4 * t;
    const int rows = op.m - m0 - g;
#pragma unroll
    for (int group = 0; group < T::kBlocksN / 4; ++group) {
      const int column = group * cuda::kGroupRows + 8 * t;
      const Columns c = columns_of(op, scales, n0, column);
#pragma unroll
      for (int m = 0; m < T::kBlocksM; ++m) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          const int row = m * kMmaM + upper * 8;
          const float x_scale = scales.x[row + g];
          float h[4];
#pragma unroll
          for (int block = 0; block < 4; ++block) {
            const int* acc = product.acc[m][4 * group + block] + 2 * upper;
            const float gate = scaled(acc[0], x_scale, c.scale[2 * block], c.bias[2 * block]);
            const float up = scaled(acc[1], x_scale, c.scale[2 * block + 1], c.bias[2 * block + 1]);
            h[block] = __fmul_rn(silu(gate), up);
          }
          const std::uint32_t low = is_bf16 ? cuda::pack_bf16x2(h[0], h[1]) : cuda::pack_f16x2(h[0], h[1]);
          const std::uint32_t high = is_bf16 ? cuda::pack_bf16x2(h[2], h[3]) : cuda::pack_f16x2(h[2], h[3]);
          if (row < rows) *reinterpret_cast<uint2*>(y + row * op.y_stride + group * cuda::kGroupRows / 2) = make_uint2(low, high);
        }
      }
    }
  }

  static __device__ __forceinline__ void store_any(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, int m0, int n0, int lane) {
    const int g = lane >> 2;
    const int t = lane & 3;
    const std::int64_t split_offset = blockIdx.y * args.split_stride;
    constexpr int kRows = T::kBlocksM * 2;  // rows of this lane
#pragma unroll 1
    for (int i = 0; i < kRows * T::kPairs; ++i) {
      int acc[4];  // of four neighbouring columns: two of each block of a pair
#pragma unroll
      for (int j = 0; j < kRows * T::kPairs; ++j) {  // registers have no index: a ladder of compile-time ones
        if (j != i) continue;
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[e] = product.acc[j / 2 % T::kBlocksM][j / 2 / T::kBlocksM * 2 + e / 2][2 * (j % 2) + e % 2];
      }
      const int m = m0 + i / 2 % T::kBlocksM * kMmaM + i % 2 * 8 + g;
      const int n = n0 + cuda::b_pair_row(i / 2 / T::kBlocksM) + 8 * t;
      if (m < op.m && n < args.n) finish_row_piece<4>(args, op, m, n, acc, split_offset);
    }
  }
};

}  // namespace octavo::device
