// y = epilogue(x · wᵀ) in W8A8 on mma.sync: one CTA walks over tiles of y, cp.async keeps kStages slices of K on their way.
//
//   x [M, K], w [N, K] int8, rows contiguous along K            numerics.md sections 4, 5
//
//        kN                 a CTA:   kWarpsM × kWarpsN warps, each with kM/kWarpsM × kN/kWarpsN sums in registers;
//      ┌──┬──┬──┬──┐                 kWarpsK > 1: the steps of a slice are dealt out to warps, whose sums are added at the end
//   kM │  │  │  │  │        a slice: kK bytes of every row of the tile, in one of kStages slots of shared memory
//      ├──┼──┼──┼──┤        a step:  32 of them, one mma deep
//      │  │  │  │  │
//      └──┴──┴──┴──┘
//
// Shared memory: kStages · (kM + kN) · kK bytes, then 1 KiB per warp through which results leave (slab.h).
//
// A slice's slot is free as soon as the last of its fragments has been asked for, which is before its last products are computed:
// there stands the one barrier of the iteration, and after it the slot is refilled with the slice kStages further on. So all slots
// are always in use or on their way. The copies run ahead across tile boundaries: the next tile arrives while this one is stored.
//
// Rows beyond M or N are read as the last row and never stored; K beyond the end arrives as zeros.
// Limits: K % 16 = 0, rows 16-byte aligned, tile rows × stride < 2^32 bytes (GemmKernel::accepts checks). Offsets of tiles are 64-bit.
#pragma once

#include <cstdint>

#include "cuda/cp_async.cuh"
#include "cuda/ldmatrix.cuh"
#include "cuda/mma_s8.cuh"
#include "cuda/shared.cuh"
#include "cuda/swizzle.h"
#include "ops/linear/device/finish.cuh"
#include "ops/linear/device/gemm_args.h"
#include "ops/linear/device/slab.h"
#include "ops/linear/device/tile_order.h"

namespace octavo::device {

inline constexpr int kWarp = 32;
inline constexpr int kStepBytes = 32;  // K of one m16n8k32
inline constexpr int kMmaM = 16;
inline constexpr int kMmaN = 8;

// How fragments are kept: `doubled` holds two whole steps; `streamed` replaces each fragment right after its last use, in 40 fewer registers.
enum class Fragments { doubled, streamed };

// How a slice travels: `async` by cp.async (sm_80 on), `registers` by way of registers, one slice further ahead (sm_75, which also has only small mma).
enum class Copies { async, registers };

template <int kM_, int kN_, int kK_, int kWarpsM_, int kWarpsN_, int kWarpsK_, int kStages_, int kMinCtas_, Fragments kFragments_ = Fragments::doubled,
          Copies kCopies_ = Copies::async>
struct MmaTile {
  static constexpr int kM = kM_, kN = kN_, kK = kK_;
  static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_, kWarpsK = kWarpsK_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinCtas = kMinCtas_;
  static constexpr Fragments kFragments = kFragments_;
  static constexpr Copies kCopies = kCopies_;

  static constexpr int kWarps = kWarpsM * kWarpsN * kWarpsK;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kWarpM = kM / kWarpsM, kWarpN = kN / kWarpsN;
  static constexpr int kBlocksM = kWarpM / kMmaM, kBlocksN = kWarpN / kMmaN;
  static constexpr int kSteps = kK / kStepBytes / kWarpsK;  // of one warp, per slice

  static constexpr int kChunks = kK / cuda::kChunkBytes;  // per row
  static constexpr int kRowsPerPass = kThreads / kChunks;
  static constexpr int kPassesX = (kM + kRowsPerPass - 1) / kRowsPerPass;
  static constexpr int kPassesW = (kN + kRowsPerPass - 1) / kRowsPerPass;
  static constexpr int kSliceX = kM * kK, kSlice = (kM + kN) * kK;
  static constexpr int kSharedBytes = kStages * kSlice + kWarps * kSlabBytes;

  static_assert(kWarpM % kMmaM == 0 && kWarpN % (4 * kMmaN) == 0, "a warp's part is whole m16 blocks and whole slab columns");
  static_assert(kSteps >= 1 && (kSteps * kBlocksM) % 2 == 0 && (kFragments == Fragments::streamed || kSteps % 2 == 0),
                "fragment buffers alternate at compile time");
  static_assert(kThreads % kChunks == 0 && kRowsPerPass % 8 == 0, "every pass of a thread has the same swizzle");
  static_assert((kSteps & (kSteps - 1)) == 0, "steps are addressed by exclusive or");
  static_assert((kWarpsK - 1) * kM * kN * 4 <= kStages * kSlice, "sums of the other K parts are exchanged in the slots");
};

// The copying side: where the next slice comes from. Runs kStages slices ahead of the products.
template <class T>
struct SliceCopy {
  const std::int8_t* x;  // first row of the tile, at the present k; the same for the whole CTA
  const std::int8_t* w;
  std::uint32_t x_offset[T::kPassesX];  // of this thread's chunk in each pass, bytes
  std::uint32_t w_offset[T::kPassesW];
  int k_left;  // of the tile's K, from the present slice on; 0: no tile left, zeros are copied
  int tile;
  std::uint32_t to;  // this thread's chunk in slot 0
  int row, chunk;
  static constexpr int kParts = T::kPassesX + T::kPassesW;
  static constexpr bool kAsync = T::kCopies == Copies::async;
  uint4 held[kAsync ? 1 : kParts];  // the next slice, when it travels by registers

  __device__ __forceinline__ void start(const GemmArgs& args, std::uint32_t shared) {
    row = int(threadIdx.x) / T::kChunks;
    chunk = int(threadIdx.x) % T::kChunks;
    to = shared + cuda::swizzled_offset<T::kK>(row, chunk);
    tile = int(blockIdx.x);
    open_tile(args);
    if constexpr (!kAsync) fetch();
  }

  __device__ __forceinline__ void open_tile(const GemmArgs& args) {
    k_left = 0;
    if (tile >= args.tiles) return;
    const TilePosition at = locate_tile(tile, args.tiles_m0, args.tiles_m1, args.tiles_n, args.raster_group);
    const GemmOperand& op = args.operand[at.group];
    const int m0 = at.m_tile * T::kM;
    const int n0 = at.n_tile * T::kN;
    const int k0 = int(blockIdx.y) * args.k_per_split;
    k_left = min(args.k - k0, args.k_per_split);
    x = op.x + m0 * op.x_stride + k0;
    w = op.w + n0 * op.w_stride + k0;
    const int x_last = op.m - 1 - m0;
    const int w_last = args.n - 1 - n0;
#pragma unroll
    for (int pass = 0; pass < T::kPassesX; ++pass)
      x_offset[pass] = std::uint32_t(min(row + pass * T::kRowsPerPass, x_last)) * std::uint32_t(op.x_stride) + chunk * cuda::kChunkBytes;
#pragma unroll
    for (int pass = 0; pass < T::kPassesW; ++pass)
      w_offset[pass] = std::uint32_t(min(row + pass * T::kRowsPerPass, w_last)) * std::uint32_t(op.w_stride) + chunk * cuda::kChunkBytes;
  }

  // The last pass may be shorter than the CTA.
  __device__ __forceinline__ bool in_tile(int part) const {
    const int rows = part < T::kPassesX ? T::kM : T::kN;
    const int first = (part < T::kPassesX ? part : part - T::kPassesX) * T::kRowsPerPass;
    return first + T::kRowsPerPass <= rows || row + first < rows;
  }

  __device__ __forceinline__ const std::int8_t* from(int part) const { return part < T::kPassesX ? x + x_offset[part] : w + w_offset[part - T::kPassesX]; }

  // One chunk of the slice into the slot at byte `slot`.
  __device__ __forceinline__ void copy_part(int part, std::uint32_t slot) const {
    if (!in_tile(part)) return;
    const std::uint32_t at = to + slot + (part < T::kPassesX ? part * T::kRowsPerPass * T::kK : T::kSliceX + (part - T::kPassesX) * T::kRowsPerPass * T::kK);
    if constexpr (kAsync) {
      cuda::cp_async_16b_or_zero(at, from(part), k_left > chunk * cuda::kChunkBytes);
    } else {
      cuda::store_shared_16b(at, held[part]);
    }
  }

  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      held[part] = make_uint4(0, 0, 0, 0);
      if (in_tile(part) && k_left > chunk * cuda::kChunkBytes) held[part] = __ldg(reinterpret_cast<const uint4*>(from(part)));
    }
  }

  __device__ __forceinline__ void next_slice(const GemmArgs& args) {
    if constexpr (kAsync) cuda::cp_async_commit();
    x += T::kK;
    w += T::kK;
    k_left -= T::kK;
    if (k_left <= 0) {  // the same for the whole CTA
      tile += int(gridDim.x);
      open_tile(args);
    }
    if constexpr (!kAsync) fetch();
  }

  // All but the newest kPending slices have arrived, for this thread.
  template <int kPending>
  static __device__ __forceinline__ void wait() {
    if constexpr (kAsync) cuda::cp_async_wait<kPending>();
  }
};

// The computing side of one warp.
template <class T>
struct WarpProduct {
  int acc[T::kBlocksM][T::kBlocksN][4];
  std::uint32_t x_base, w_base;  // this lane's ldmatrix rows in slot 0, step 0 of this warp

  __device__ __forceinline__ void start(std::uint32_t shared, int warp_m, int warp_n, int warp_k, int lane) {
    // x: lanes 0…15 rows 0…15 of the first 16 bytes of the step, lanes 16…31 of the second: a0 … a3.
    const int x_row = warp_m * T::kWarpM + (lane & 15);
    x_base = shared + cuda::swizzled_offset<T::kK>(x_row, lane >> 4);
    // w: two n8 blocks; lanes 0…7 rows 0…7 first half, 8…15 second half, 16…31 the same of rows 8…15: b0, b1 of both blocks.
    const int w_row = warp_n * T::kWarpN + (lane & 7) + ((lane >> 4) << 3);
    w_base = shared + T::kSliceX + cuda::swizzled_offset<T::kK>(w_row, (lane >> 3) & 1);
    const std::uint32_t first_step = std::uint32_t(warp_k * T::kSteps * kStepBytes);
    x_base ^= first_step;
    w_base ^= first_step;
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < T::kBlocksM; ++m) {
#pragma unroll
      for (int n = 0; n < T::kBlocksN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[m][n][i] = 0;
      }
    }
  }

  static __device__ __forceinline__ void multiply(int (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    if constexpr (T::kCopies == Copies::async) {
      cuda::mma_m16n8k32_s8(d, a, b0, b1);
    } else {
      cuda::mma_m16n8k32_s8_in_quarters(d, a, b0, b1);
    }
  }

  // A step's chunks are the first step's with two address bits flipped: offsets of rows never touch them.
  __device__ __forceinline__ void load_x(std::uint32_t (&a)[4], std::uint32_t slot, int step, int block) const {
    cuda::ldmatrix_x4(a, ((x_base + slot) ^ std::uint32_t(step * kStepBytes)) + block * kMmaM * T::kK);
  }
  __device__ __forceinline__ void load_w(std::uint32_t (&b)[4], std::uint32_t slot, int step, int pair) const {
    cuda::ldmatrix_x4(b, ((w_base + slot) ^ std::uint32_t(step * kStepBytes)) + pair * 2 * kMmaN * T::kK);
  }
};

template <class T>
struct StoreEpilogue;

// `Epilogue` turns a finished tile into stored numbers: operator()(args, operand, product, m0, n0, slab, lane) for the sums of one warp, whose
// first row and column are m0 and n0. The seam for an epilogue over whole heads (RMSNorm + RoPE): a tile with kN = 256 holds every head it
// touches completely; such a functor reduces over the kWarpsN warps of a row through shared memory and needs one more barrier per tile.
template <class T, class Epilogue>
__device__ __forceinline__ void gemm_w8a8_mma_body(const GemmArgs& args) {
  extern __shared__ __align__(1024) std::uint8_t shared_bytes[];
  const std::uint32_t shared = cuda::shared_address(shared_bytes);
  const int warp = __shfl_sync(0xffffffffu, int(threadIdx.x) / kWarp, 0);  // known to the compiler as the same in all lanes
  const int lane = int(threadIdx.x) % kWarp;
  const int warp_k = warp / (T::kWarpsM * T::kWarpsN);
  const int warp_m = warp / T::kWarpsN % T::kWarpsM;
  const int warp_n = warp % T::kWarpsN;
  const std::uint32_t slab = shared + T::kStages * T::kSlice + warp * kSlabBytes;

  SliceCopy<T> copy;
  copy.start(args, shared);
#pragma unroll
  for (int stage = 0; stage < T::kStages; ++stage) {
#pragma unroll
    for (int part = 0; part < SliceCopy<T>::kParts; ++part) copy.copy_part(part, stage * T::kSlice);
    copy.next_slice(args);
  }

  WarpProduct<T> product;
  product.start(shared, warp_m, warp_n, warp_k, lane);
  const int slices = (min(args.k - int(blockIdx.y) * args.k_per_split, args.k_per_split) + T::kK - 1) / T::kK;
  std::uint32_t slot = 0;  // byte offset of the slot being multiplied

  copy.template wait<T::kStages - 1>();
  __syncthreads();

  for (int tile = int(blockIdx.x); tile < args.tiles; tile += int(gridDim.x)) {
    product.clear();
    constexpr int kBuffers = T::kFragments == Fragments::doubled ? 2 : 1;
    constexpr int kBuffersX = T::kFragments == Fragments::doubled ? 2 * T::kBlocksM : 2;
    std::uint32_t a[kBuffersX][4];
    std::uint32_t b[kBuffers][T::kBlocksN / 2][4];
    // The first fragments. Asked for again here rather than kept through the epilogue, which wants the registers.
    constexpr int kFirstX = T::kFragments == Fragments::doubled ? T::kBlocksM : 1;
#pragma unroll
    for (int m = 0; m < kFirstX; ++m) product.load_x(a[m], slot, 0, m);
#pragma unroll
    for (int pair = 0; pair < T::kBlocksN / 2; ++pair) product.load_w(b[0][pair], slot, 0, pair);

#pragma unroll 1
    for (int slice = 0; slice < slices; ++slice) {
      std::uint32_t next_slot = slot + T::kSlice;
      if (next_slot == T::kStages * T::kSlice) next_slot = 0;
#pragma unroll
      for (int step = 0; step < T::kSteps; ++step) {
        const bool last_step = step == T::kSteps - 1;
        const std::uint32_t ahead_slot = last_step ? next_slot : slot;
        const int ahead_step = last_step ? 0 : step + 1;
        if constexpr (T::kFragments == Fragments::doubled) {
          constexpr int kLoads = T::kBlocksM + T::kBlocksN / 2;
          constexpr int kParts = SliceCopy<T>::kParts;
          const int now = step & 1;
          const int ahead = now ^ 1;
          if (last_step) {
            copy.template wait<T::kStages - 2>();
            __syncthreads();
          }
#pragma unroll
          for (int m = 0; m < T::kBlocksM; ++m) {
#pragma unroll
            for (int i = 0; i < T::kBlocksN; ++i) {
              const int n = m % 2 == 0 ? i : T::kBlocksN - 1 - i;  // there and back: consecutive products share a or b
              product.multiply(product.acc[m][n], a[now * T::kBlocksM + m], b[now][n / 2][n % 2 * 2], b[now][n / 2][n % 2 * 2 + 1]);
              const int done = m * T::kBlocksN + i;
              if (done < kLoads) {
                if (done < T::kBlocksN / 2) {
                  product.load_w(b[ahead][done], ahead_slot, ahead_step, done);
                } else {
                  product.load_x(a[ahead * T::kBlocksM + done - T::kBlocksN / 2], ahead_slot, ahead_step, done - T::kBlocksN / 2);
                }
              } else if (last_step && done - kLoads < kParts) {
                copy.copy_part(done - kLoads, slot);
              }
            }
          }
          constexpr int kMmas = T::kBlocksM * T::kBlocksN;
          if (last_step && kMmas - kLoads < kParts) {
#pragma unroll
            for (int part = kMmas - kLoads > 0 ? kMmas - kLoads : 0; part < kParts; ++part) copy.copy_part(part, slot);
          }
        } else {
          constexpr int kPairs = T::kBlocksN / 2;
          constexpr int kPartsPerPair = (SliceCopy<T>::kParts + kPairs - 1) / kPairs;
#pragma unroll
          for (int m = 0; m < T::kBlocksM; ++m) {
            const bool last_row = m == T::kBlocksM - 1;
            if (last_step && last_row) {
              copy.template wait<T::kStages - 2>();
              __syncthreads();
            }
            const int now = (step * T::kBlocksM + m) & 1;
            product.load_x(a[now ^ 1], last_row ? ahead_slot : slot, last_row ? ahead_step : step, last_row ? 0 : m + 1);
#pragma unroll
            for (int pair = 0; pair < kPairs; ++pair) {
              product.multiply(product.acc[m][2 * pair], a[now], b[0][pair][0], b[0][pair][1]);
              product.multiply(product.acc[m][2 * pair + 1], a[now], b[0][pair][2], b[0][pair][3]);
              if (last_row) product.load_w(b[0][pair], ahead_slot, ahead_step, pair);
              if (last_step && last_row) {
#pragma unroll
                for (int part = pair * kPartsPerPair; part < (pair + 1) * kPartsPerPair && part < SliceCopy<T>::kParts; ++part) copy.copy_part(part, slot);
              }
            }
          }
        }
        if (last_step) copy.next_slice(args);
      }
      slot = next_slot;
    }

    if constexpr (T::kWarpsK > 1) {
      // Adds the sums of the other K parts. Every slot is idle or holds only zeros by now: a CTA with K parts computes one tile (GemmArgs.tiles <= gridDim.x).
      copy.template wait<0>();
      __syncthreads();
      int* exchange = reinterpret_cast<int*>(shared_bytes);
      constexpr int kSums = T::kBlocksM * T::kBlocksN * 4;
      const int part = warp_m * T::kWarpsN + warp_n;
      constexpr int kPartsMN = T::kWarpsM * T::kWarpsN;
      if (warp_k > 0) {
#pragma unroll
        for (int i = 0; i < kSums; ++i)
          exchange[(((warp_k - 1) * kPartsMN + part) * kSums + i) * kWarp + lane] = product.acc[i / 4 / T::kBlocksN][i / 4 % T::kBlocksN][i % 4];
      }
      __syncthreads();
      if (warp_k > 0) return;
#pragma unroll 1
      for (int other = 0; other < T::kWarpsK - 1; ++other) {
#pragma unroll
        for (int i = 0; i < kSums; ++i)
          product.acc[i / 4 / T::kBlocksN][i / 4 % T::kBlocksN][i % 4] += exchange[((other * kPartsMN + part) * kSums + i) * kWarp + lane];
      }
    }

    const TilePosition at = locate_tile(tile, args.tiles_m0, args.tiles_m1, args.tiles_n, args.raster_group);
    Epilogue{}(args, args.operand[at.group], product, at.m_tile * T::kM + warp_m * T::kWarpM, at.n_tile * T::kN + warp_n * T::kWarpN, slab, lane);
  }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr bool kHasAsyncCopies = false;
#else
inline constexpr bool kHasAsyncCopies = true;
#endif

template <class T, class Epilogue = StoreEpilogue<T>>
__global__ void __launch_bounds__(T::kThreads, T::kMinCtas) gemm_w8a8_mma(const __grid_constant__ GemmArgs args) {
  if constexpr (kHasAsyncCopies || T::kCopies == Copies::registers) gemm_w8a8_mma_body<T, Epilogue>(args);
}

// The epilogues that store y. The two hot ones (16-bit y, plain or silu(gate)·up) convert in registers; all others send the bare sums through
// the slab and finish them in one compact loop, which takes any output type, any tail and any alignment.
template <class T>
struct StoreEpilogue {
  static constexpr int kBlocks = 4;                 // n8 blocks in a slab column
  static constexpr int kColumns = kBlocks * kMmaN;  // 32
  static constexpr int kHalves = T::kWarpN / kColumns;

  __device__ __forceinline__ void operator()(const GemmArgs& args, const GemmOperand& op, WarpProduct<T>& product, int m0, int n0, std::uint32_t slab,
                                             int lane) const {
    if (m0 >= op.m || n0 >= args.n) return;
    const bool is_16 = args.out == Out::bf16 || args.out == Out::f16;
    const bool hot = is_16 && op.y_aligned != 0;
    if (hot && args.finish == Finish::plain) {
      if (args.out == Out::bf16) return store_16<true>(args, op, product, m0, n0, slab, lane);
      return store_16<false>(args, op, product, m0, n0, slab, lane);
    }
    if (hot && args.finish == Finish::silu_mul) return store_silu_mul(args, op, product, m0, n0, slab, lane);
    store_any(args, op, product, m0, n0, slab, lane);
  }

  template <bool kBf16>
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    if constexpr (kBf16) return cuda::pack_bf16x2(low, high);
    return cuda::pack_f16x2(low, high);
  }

  // The two w scales and biases of each of this lane's columns in one slab column.
  struct ColumnScales {
    float scale[kBlocks][2];
    float bias[kBlocks][2];

    __device__ __forceinline__ void load(const GemmArgs& args, const GemmOperand& op, int first) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int n = min(first + block * kMmaN + i, args.n - 1);
          scale[block][i] = __ldg(op.w_scale + n);
          bias[block][i] = op.bias == nullptr ? kNoBias : __ldg(op.bias + n);
        }
      }
    }
  };

  // 16 bytes to columns [n, n + 8) of row m; element by element where the row ends.
  static __device__ __forceinline__ void store_chunk(const GemmOperand& op, int m, int n, int n_end, std::uint32_t from) {
    if (m >= op.m || n >= n_end) return;
    std::uint16_t* to = static_cast<std::uint16_t*>(op.y) + m * op.y_stride + n;
    const uint4 v = cuda::load_shared_16b(from);
    if (n + 8 <= n_end) {
      *reinterpret_cast<uint4*>(to) = v;
      return;
    }
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (n + i < n_end) to[i] = std::uint16_t(words[i / 2] >> (i % 2 * 16));
    }
  }

  template <bool kBf16>
  static __device__ __forceinline__ void store_16(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, int m0, int n0,
                                                  std::uint32_t slab, int lane) {
    const int g = lane >> 2;
    const int t = lane & 3;
    int turn = 0;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      ColumnScales column;
      column.load(args, op, n0 + half * kColumns + 2 * t);
#pragma unroll
      for (int m = 0; m < T::kBlocksM; ++m) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          const int row = m0 + m * kMmaM + upper * 8;
          const float x_scale = __ldg(op.x_scale + min(row + g, op.m - 1));
          const std::uint32_t slot = slab + turn * kSlotBytes;
#pragma unroll
          for (int block = 0; block < kBlocks; ++block) {
            const int* acc = product.acc[m][half * kBlocks + block] + 2 * upper;
            const float v0 = scaled(acc[0], x_scale, column.scale[block][0], column.bias[block][0]);
            const float v1 = scaled(acc[1], x_scale, column.scale[block][1], column.bias[block][1]);
            cuda::store_shared_4b(slot + slab16_write(g, block, t), pack<kBf16>(v0, v1));
          }
          __syncwarp();  // also: nobody reads the other slot any more
          store_chunk(op, row + (lane >> 2), n0 + half * kColumns + (lane & 3) * 8, args.n, slot + slab16_read(lane));
          turn ^= 1;
        }
      }
    }
    __syncwarp();  // the next tile's first slot
  }

  static __device__ __forceinline__ void store_silu_mul(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, int m0, int n0,
                                                        std::uint32_t slab, int lane) {
    const int g = lane >> 2;
    const int t = lane & 3;
    const bool is_bf16 = args.out == Out::bf16;
    int turn = 0;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      ColumnScales column;
      column.load(args, op, n0 + half * kColumns + 2 * t);
#pragma unroll
      for (int m = 0; m < T::kBlocksM; ++m) {
        const int row = m0 + m * kMmaM;
        const float x_scale[2] = {__ldg(op.x_scale + min(row + g, op.m - 1)), __ldg(op.x_scale + min(row + g + 8, op.m - 1))};
        const std::uint32_t slot = slab + turn * kSlotBytes;
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          float h[2];
#pragma unroll
          for (int upper = 0; upper < 2; ++upper) {
            const int* acc = product.acc[m][half * kBlocks + block] + 2 * upper;
            const float gate = scaled(acc[0], x_scale[upper], column.scale[block][0], column.bias[block][0]);
            const float up = scaled(acc[1], x_scale[upper], column.scale[block][1], column.bias[block][1]);
            h[upper] = __fmul_rn(silu(gate), up);
          }
          // Even t keeps row g and takes the neighbour's column, odd t keeps row g + 8.
          const float given = __shfl_xor_sync(0xffffffffu, t % 2 == 0 ? h[1] : h[0], 1);
          const float low = t % 2 == 0 ? h[0] : given;
          const float high = t % 2 == 0 ? given : h[1];
          const std::uint32_t word = is_bf16 ? cuda::pack_bf16x2(low, high) : cuda::pack_f16x2(low, high);
          cuda::store_shared_4b(slot + slab_silu_write(g + 8 * (t & 1), block, t), word);
        }
        __syncwarp();
        const int out_row = row + (lane >> 1);
        const int out_column = (n0 + half * kColumns) / 2 + (lane & 1) * 8;
        uint4 v = cuda::load_shared_16b(slot + slab_silu_read(lane));
        if (lane >= 16) v = make_uint4(v.z, v.w, v.x, v.y);
        const int columns = args.n / 2 - out_column;
        if (out_row < op.m && columns > 0) {
          std::uint16_t* to = static_cast<std::uint16_t*>(op.y) + out_row * op.y_stride + out_column;
          if (columns >= 8) {
            *reinterpret_cast<uint4*>(to) = v;
          } else {
            const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 8; ++i) {
              if (i < columns) to[i] = std::uint16_t(words[i / 2] >> (i % 2 * 16));
            }
          }
        }
        turn ^= 1;
      }
    }
    __syncwarp();
  }

  static __device__ __forceinline__ void store_any(const GemmArgs& args, const GemmOperand& op, const WarpProduct<T>& product, int m0, int n0,
                                                   std::uint32_t slab, int lane) {
    const int g = lane >> 2;
    const int t = lane & 3;
    const std::int64_t split_offset = blockIdx.y * args.split_stride;
    constexpr int kPieces = T::kBlocksM * 2 * kHalves;  // of 8 rows × 32 columns
#pragma unroll 1
    for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {  // registers have no index: a ladder of compile-time pieces
        if (p != piece) continue;
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          const int* acc = product.acc[p / 2 % T::kBlocksM][p / 2 / T::kBlocksM * kBlocks + block] + 2 * (p % 2);
          cuda::store_shared_8b(slab + slab32_write(g, block, t), std::uint32_t(acc[0]), std::uint32_t(acc[1]));
        }
      }
      __syncwarp();
      const int row = m0 + piece / 2 % T::kBlocksM * kMmaM + piece % 2 * 8;
      const int first = n0 + piece / 2 / T::kBlocksM * kColumns;
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
        const int m = row + half * 4 + (lane >> 3);
        const int n = first + (lane & 7) * 4;
        const uint4 v = cuda::load_shared_16b(slab + slab32_read(lane, half));
        const int acc[4] = {int(v.x), int(v.y), int(v.z), int(v.w)};
        if (m < op.m && n < args.n) finish_row_piece<4>(args, op, m, n, acc, split_offset);
      }
      __syncwarp();
    }
  }
};

}  // namespace octavo::device
