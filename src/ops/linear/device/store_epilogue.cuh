// The epilogues of gemm_mma.cuh that store y. Included by it.
//
// Lane l holds of an m16 × n8 block rows g, g + 8 and columns 2t, 2t + 1, g = l / 4, t = l % 4. The two hot epilogues (16-bit y, plain or
// silu(gate)·up) convert in registers and trade words within the four lanes of a row, so that every store fills whole 32-byte sectors;
// no shared memory, no barrier. All others finish pairs of columns one by one: any output type, any tail, any alignment.
#pragma once

#include <cstdint>

#include "ops/linear/device/finish.cuh"
#include "ops/linear/device/gemm_mma.cuh"

namespace octavo::device {

template <class T>
struct StoreEpilogue {
  static constexpr unsigned kAllLanes = 0xffffffffu;

  __device__ __forceinline__ void operator()(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, const TileScales& scales, int m0,
                                             int n0, int lane) const {
    if (m0 >= op.m || n0 >= args.n) return;
    const bool hot = (args.out == Out::bf16 || args.out == Out::f16) && op.y_aligned != 0;
    if (hot && args.finish == Finish::plain) {
      if (args.out == Out::bf16) return store_16<true>(args, op, product, scales, m0, n0, lane);
      return store_16<false>(args, op, product, scales, m0, n0, lane);
    }
    if (hot && args.finish == Finish::silu_mul) return store_silu_mul(args, op, product, scales, m0, n0, lane);
    store_any(args, op, product, m0, n0, lane);
  }

  // Biases of columns n and n + 1, or what changes nothing.
  static __device__ __forceinline__ float2 biases(const GemmArgs& args, const GemmOperand& op, int n) {
    if (op.bias == nullptr) return make_float2(kNoBias, kNoBias);
    return make_float2(__ldg(op.bias + min(n, args.n - 1)), __ldg(op.bias + min(n + 1, args.n - 1)));
  }

  template <bool kBf16>
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    if constexpr (kBf16) return cuda::pack_bf16x2(low, high);
    return cuda::pack_f16x2(low, high);
  }

  // Four n8 blocks at a time: a 4 × 4 transpose of words among the four lanes of a row, in two trades. Lane t ends with all 16 bytes of block t.
  template <bool kBf16>
  static __device__ __forceinline__ void store_16(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, const TileScales& scales, int m0,
                                                  int n0, int lane) {
    const int g = lane >> 2;
    const int t = lane & 3;
    const bool odd = (t & 1) != 0;
    const bool far = (t & 2) != 0;
    const int column = n0 + t * kMmaN;
    std::uint16_t* const y = static_cast<std::uint16_t*>(op.y) + (m0 + g) * op.y_stride + column;
    const int rows = op.m - m0 - g;
#pragma unroll
    for (int quad = 0; quad < T::kBlocksN / 4; ++quad) {
      float2 w_scale[4];
      float2 bias[4];
#pragma unroll
      for (int block = 0; block < 4; ++block) {
        w_scale[block] = *reinterpret_cast<const float2*>(scales.w + (4 * quad + block) * kMmaN + 2 * t);
        bias[block] = biases(args, op, n0 + (4 * quad + block) * kMmaN + 2 * t);
      }
      const int columns = args.n - (column + quad * 4 * kMmaN);
#pragma unroll
      for (int m = 0; m < T::kBlocksM; ++m) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          const int row = m * kMmaM + upper * 8;  // below row g
          const float x_scale = scales.x[row + g];
          std::uint32_t word[4];
#pragma unroll
          for (int block = 0; block < 4; ++block) {
            const int* acc = product.acc[m][4 * quad + block] + 2 * upper;
            word[block] = pack<kBf16>(scaled(acc[0], x_scale, w_scale[block].x, bias[block].x), scaled(acc[1], x_scale, w_scale[block].y, bias[block].y));
          }
          // With the neighbour: even lanes give their words of the odd blocks, so that everyone holds pairs, of blocks 0 and 2 or of 1 and 3.
          const std::uint32_t given0 = __shfl_xor_sync(kAllLanes, odd ? word[0] : word[1], 1);
          const std::uint32_t given2 = __shfl_xor_sync(kAllLanes, odd ? word[2] : word[3], 1);
          const uint2 first = odd ? make_uint2(given0, word[1]) : make_uint2(word[0], given0);
          const uint2 second = odd ? make_uint2(given2, word[3]) : make_uint2(word[2], given2);
          // Two lanes on: the near lanes give the pair of block 2 or 3 for the other half of block 0 or 1.
          const std::uint32_t other0 = __shfl_xor_sync(kAllLanes, far ? first.x : second.x, 2);
          const std::uint32_t other1 = __shfl_xor_sync(kAllLanes, far ? first.y : second.y, 2);
          const uint4 v = far ? make_uint4(other0, other1, second.x, second.y) : make_uint4(first.x, first.y, other0, other1);
          if (row < rows && columns > 0) store_8(y + row * op.y_stride + quad * 4 * kMmaN, v, columns);
        }
      }
    }
  }

  // Eight 16-bit results, or as many of them as the row still has.
  static __device__ __forceinline__ void store_8(std::uint16_t* to, uint4 v, int columns) {
    if (columns >= 8) {
      *reinterpret_cast<uint4*>(to) = v;
      return;
    }
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < columns) to[i] = std::uint16_t(words[i / 2] >> (i % 2 * 16));
    }
  }

  // Four n8 blocks at a time give 16 results of a row, one per lane and block. First trade, with the neighbour: even lanes keep row g, odd
  // lanes row g + 8, both now hold pairs. Second trade, two lanes on: lanes 0, 1 keep blocks j, j + 1, lanes 2, 3 blocks j + 2, j + 3.
  // Then every lane has 16 bytes in a row, a row 32.
  static __device__ __forceinline__ void store_silu_mul(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, const TileScales& scales,
                                                        int m0, int n0, int lane) {
    const int g = lane >> 2;
    const int t = lane & 3;
    const bool odd = (t & 1) != 0;
    const bool far = (t & 2) != 0;
    const bool is_bf16 = args.out == Out::bf16;
    const int column = n0 / 2 + (far ? kMmaN : 0);
    const int first_row = odd ? g + 8 : g;
    std::uint16_t* const y = static_cast<std::uint16_t*>(op.y) + m0 * op.y_stride + column;
#pragma unroll
    for (int quad = 0; quad < T::kBlocksN / 4; ++quad) {
      float2 w_scale[4];
      float2 bias[4];
#pragma unroll
      for (int block = 0; block < 4; ++block) {
        w_scale[block] = *reinterpret_cast<const float2*>(scales.w + (4 * quad + block) * kMmaN + 2 * t);
        bias[block] = biases(args, op, n0 + (4 * quad + block) * kMmaN + 2 * t);
      }
      const int columns = args.n / 2 - (column + quad * 2 * kMmaN);
#pragma unroll
      for (int m = 0; m < T::kBlocksM; ++m) {
        const float x_scale[2] = {scales.x[m * kMmaM + g], scales.x[m * kMmaM + g + 8]};
        std::uint32_t word[4];
#pragma unroll
        for (int block = 0; block < 4; ++block) {
          float h[2];
#pragma unroll
          for (int upper = 0; upper < 2; ++upper) {
            const int* acc = product.acc[m][4 * quad + block] + 2 * upper;
            const float gate = scaled(acc[0], x_scale[upper], w_scale[block].x, bias[block].x);
            const float up = scaled(acc[1], x_scale[upper], w_scale[block].y, bias[block].y);
            h[upper] = __fmul_rn(silu(gate), up);
          }
          const float given = __shfl_xor_sync(kAllLanes, odd ? h[0] : h[1], 1);
          const float low = odd ? given : h[0];
          const float high = odd ? h[1] : given;
          word[block] = is_bf16 ? cuda::pack_bf16x2(low, high) : cuda::pack_f16x2(low, high);
        }
        const std::uint32_t given0 = __shfl_xor_sync(kAllLanes, far ? word[0] : word[2], 2);
        const std::uint32_t given1 = __shfl_xor_sync(kAllLanes, far ? word[1] : word[3], 2);
        const uint4 v = far ? make_uint4(given0, word[2], given1, word[3]) : make_uint4(word[0], given0, word[1], given1);
        const int row = m * kMmaM + first_row;
        if (m0 + row >= op.m || columns <= 0) continue;
        store_8(y + row * op.y_stride + quad * 2 * kMmaN, v, columns);
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
      int acc[2][2];
#pragma unroll
      for (int j = 0; j < kRows * T::kPairs; ++j) {  // registers have no index: a ladder of compile-time ones
        if (j != i) continue;
#pragma unroll
        for (int block = 0; block < 2; ++block) {
          const int* from = product.acc[j / 2 % T::kBlocksM][j / 2 / T::kBlocksM * 2 + block] + 2 * (j % 2);
          acc[block][0] = from[0];
          acc[block][1] = from[1];
        }
      }
      const int m = m0 + i / 2 % T::kBlocksM * kMmaM + i % 2 * 8 + g;
      const int n = n0 + i / 2 / T::kBlocksM * 2 * kMmaN + 2 * t;
      if (m >= op.m) continue;
      if (n < args.n) finish_row_piece<2>(args, op, m, n, acc[0], split_offset);
      if (n + kMmaN < args.n) finish_row_piece<2>(args, op, m, n + kMmaN, acc[1], split_offset);
    }
  }
};

}  // namespace octavo::device
