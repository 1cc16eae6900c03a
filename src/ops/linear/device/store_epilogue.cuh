// The epilogues of gemm_mma.cuh that store y. Included by it.
//
// Lane l holds of an m16 × n8 block rows g, g + 8 and columns 2t, 2t + 1, g = l / 4, t = l % 4. The two hot epilogues (16-bit y, plain or
// silu(gate)·up) convert in registers and trade words within the four lanes of a row, so that every store fills 32-byte sectors;
// no shared memory, no barrier. All others finish pairs of columns one by one: any output type, any tail, any alignment.
#pragma once

#include <cstdint>

#include "ops/linear/device/finish.cuh"
#include "ops/linear/device/gemm_mma.cuh"

namespace octavo::device {

template <class T>
struct StoreEpilogue {
  static constexpr unsigned kAllLanes = 0xffffffffu;

  __device__ __forceinline__ void operator()(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, const TileScales& scales, int m0, int n0, int lane) const {
    if (m0 >= op.m || n0 >= args.n) return;
    const bool hot = (args.out == Out::bf16 || args.out == Out::f16) && op.y_aligned != 0;
    if (hot && args.finish == Finish::plain) {
      if (args.out == Out::bf16) return store_16<true>(args, op, product, scales, m0, n0, lane);
      return store_16<false>(args, op, product, scales, m0, n0, lane);
    }
    if (hot && args.finish == Finish::silu_mul) return store_silu_mul(args, op, product, scales, m0, n0, lane);
    store_any(args, op, product, m0, n0, lane);
  }

  template <bool kBf16>
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    if constexpr (kBf16) return cuda::pack_bf16x2(low, high);
    return cuda::pack_f16x2(low, high);
  }

  // Two neighbouring n8 blocks at a time: of each row, lanes 0, 1 hold words 0, 1 of block j and of block j + 1, lanes 2, 3 words 2, 3.
  // Even lanes give away their word of block j + 1 for the neighbour's of block j: then every lane has 8 bytes in a row, a row 32.
  template <bool kBf16>
  static __device__ __forceinline__ void store_16(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, const TileScales& scales, int m0, int n0, int lane) {
    const int g = lane >> 2;
    const int t = lane & 3;
    const bool odd = (t & 1) != 0;
    const int column = n0 + (odd ? kMmaN : 0) + (t & 2) * 2;
    std::uint16_t* const y = static_cast<std::uint16_t*>(op.y) + m0 * op.y_stride + column;
    const int rows = op.m - m0;
#pragma unroll
    for (int pair = 0; pair < T::kPairs; ++pair) {
      float2 w_scale[2];
      float2 bias[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        w_scale[i] = *reinterpret_cast<const float2*>(scales.w + (2 * pair + i) * kMmaN + 2 * t);
        bias[i] = *reinterpret_cast<const float2*>(scales.bias + (2 * pair + i) * kMmaN + 2 * t);
      }
      const int columns = args.n - (column + pair * 2 * kMmaN);
#pragma unroll
      for (int m = 0; m < T::kBlocksM; ++m) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          const int row = m * kMmaM + upper * 8 + g;
          const float x_scale = scales.x[row];
          std::uint32_t word[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int* acc = product.acc[m][2 * pair + i] + 2 * upper;
            word[i] = pack<kBf16>(scaled(acc[0], x_scale, w_scale[i].x, bias[i].x), scaled(acc[1], x_scale, w_scale[i].y, bias[i].y));
          }
          const std::uint32_t given = __shfl_xor_sync(kAllLanes, odd ? word[0] : word[1], 1);
          const uint2 v = odd ? make_uint2(given, word[1]) : make_uint2(word[0], given);
          if (row >= rows || columns <= 0) continue;
          std::uint16_t* const to = y + row * op.y_stride + pair * 2 * kMmaN;
          if (columns >= 4) {
            *reinterpret_cast<uint2*>(to) = v;
          } else {
            to[0] = std::uint16_t(v.x);
            if (columns > 1) to[1] = std::uint16_t(v.x >> 16);
            if (columns > 2) to[2] = std::uint16_t(v.y);
          }
        }
      }
    }
  }

  // Four n8 blocks at a time give 16 results of a row, one per lane and block. First trade, with the neighbour: even lanes keep row g, odd
  // lanes row g + 8, both now hold pairs. Second trade, two lanes on: lanes 0, 1 keep blocks j, j + 1, lanes 2, 3 blocks j + 2, j + 3.
  // Then every lane has 16 bytes in a row, a row 32.
  static __device__ __forceinline__ void store_silu_mul(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, const TileScales& scales, int m0, int n0, int lane) {
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
      const int columns = args.n / 2 - (column + quad * 2 * kMmaN);
#pragma unroll
      for (int m = 0; m < T::kBlocksM; ++m) {
        const float x_scale[2] = {scales.x[m * kMmaM + g], scales.x[m * kMmaM + g + 8]};
        std::uint32_t word[4];
#pragma unroll
        for (int block = 0; block < 4; ++block) {
          const float2 w_scale = *reinterpret_cast<const float2*>(scales.w + (4 * quad + block) * kMmaN + 2 * t);
          const float2 bias = *reinterpret_cast<const float2*>(scales.bias + (4 * quad + block) * kMmaN + 2 * t);
          float h[2];
#pragma unroll
          for (int upper = 0; upper < 2; ++upper) {
            const int* acc = product.acc[m][4 * quad + block] + 2 * upper;
            const float gate = scaled(acc[0], x_scale[upper], w_scale.x, bias.x);
            const float up = scaled(acc[1], x_scale[upper], w_scale.y, bias.y);
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
        std::uint16_t* const to = y + row * op.y_stride + quad * 2 * kMmaN;
        if (columns >= 8) {
          *reinterpret_cast<uint4*>(to) = v;
          continue;
        }
        const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          if (i < columns) to[i] = std::uint16_t(words[i / 2] >> (i % 2 * 16));
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
