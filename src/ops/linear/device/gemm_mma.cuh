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
// Shared memory: kStages · (kM + kN) · kK bytes of slices, then the tile's scales, (kM + kN) · 4 bytes.
//
// A slice's slot is free as soon as the last of its fragments has been asked for, which is before its last products are computed:
// there stands the one barrier of the iteration, and after it the slot is refilled with the slice kStages further on. So all slots
// are always in use or on their way. The copies run ahead across tile boundaries: the next tile arrives while this one is stored.
//
// When loads and copies stand among the products matters more than anything else here (bench/results/h200-mma-anatomy.txt): a warp issues in
// order and its loads share one queue with its copies, each of which occupies that queue once per 128-byte line it touches.
//
// Bytes beyond K arrive as zeros. Rows beyond M or N are zeros or other rows of the tile; their results are not stored. (Reading the last
// row instead makes every CTA hit one L2 line: M = 65 took 1.5 times as long as M = 96.)
// Limits: K % 16 = 0, rows 16-byte aligned, tile rows × stride < 2^32 bytes (GemmKernel::accepts checks). Offsets of tiles are 64-bit.
#pragma once

#include <cstdint>

#include "cuda/cp_async.cuh"
#include "cuda/fragment_lanes.h"
#include "cuda/host_device.h"
#include "cuda/ldmatrix.cuh"
#include "cuda/mma_s8.cuh"
#include "cuda/shared.cuh"
#include "cuda/swizzle.h"
#include "ops/linear/device/finish.cuh"
#include "ops/linear/device/gemm_args.h"
#include "ops/linear/device/tile_order.h"

namespace octavo::device {

inline constexpr int kWarp = 32;
inline constexpr int kStepBytes = 32;  // K of one m16n8k32
inline constexpr int kMmaM = 16;
inline constexpr int kMmaN = 8;

// How fragments are kept: `doubled` holds two whole steps; `streamed` replaces each fragment right after its last use, in fewer registers;
enum class Fragments { doubled, streamed };

// How a slice travels: `async` by cp.async (sm_80 on), `registers` by way of registers, one slice further ahead (sm_75, which also has only small mma).
enum class Copies { async, registers };

// When loads and copies are issued, counted in products of a step of 32: one fragment load every kLoadGap_; the copies of a slice in the step
// behind the barrier, from product kCopyStart_ on, kCopyGap_ apart. The default won on the H200 (bench/results): copies behind all loads of
// their step, since a load that waits behind a copy stops the products, and no later, since they need their time to arrive.
template <int kLoadGap_ = 3, int kCopyStart_ = 24, int kCopyGap_ = 1>
struct Schedule {
  static constexpr int kLoadGap = kLoadGap_, kCopyStart = kCopyStart_, kCopyGap = kCopyGap_;
};

template <int kM_, int kN_, int kK_, int kWarpsM_, int kWarpsN_, int kWarpsK_, int kStages_, int kMinCtas_, Fragments kFragments_ = Fragments::doubled,
          class Schedule_ = Schedule<>, Copies kCopies_ = Copies::async>
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
  static constexpr int kPairs = kBlocksN / 2;               // one ldmatrix brings the w fragments of two n8 blocks
  static constexpr int kSteps = kK / kStepBytes / kWarpsK;  // of one warp, per slice
  static constexpr int kProducts = kBlocksM * kBlocksN;     // of one warp, per step
  static constexpr int kLoads = kBlocksM + kPairs;          // ldmatrix of one warp, per step

  static constexpr int kChunks = kK / cuda::kChunkBytes;  // per row
  static constexpr int kRowsPerPass = kThreads / kChunks;
  static constexpr int kPassesX = (kM + kRowsPerPass - 1) / kRowsPerPass;
  static constexpr int kPassesW = (kN + kRowsPerPass - 1) / kRowsPerPass;
  static constexpr int kParts = kPassesX + kPassesW;  // copies of one thread, per slice
  static constexpr int kSliceX = kM * kK, kSlice = (kM + kN) * kK;
  static constexpr int kScales = kStages * kSlice;  // byte offset of x_scale [kM], w_scale [kN]
  static constexpr int kSharedBytes = kScales + (kM + kN) * 4;

  static_assert(kWarpM % kMmaM == 0 && kWarpN % (4 * kMmaN) == 0, "a warp's part is whole m16 blocks and whole groups of four n8 blocks");
  static_assert(kSteps >= 1 && (kFragments == Fragments::streamed ? kSteps * kBlocksM % 2 == 0 : kSteps % 2 == 0),
                "fragment buffers alternate at compile time");
  static_assert(kThreads % kChunks == 0 && kRowsPerPass % 8 == 0, "every pass of a thread over x has the same swizzle");
  static_assert((kRowsPerPass & (kRowsPerPass - 1)) == 0 || kRowsPerPass % 32 == 0, "passes over w differ by an exclusive or of the swizzle");
  static_assert((kSteps & (kSteps - 1)) == 0, "steps are addressed by exclusive or");
  static_assert((kWarpsK - 1) * kM * kN * 4 <= kStages * kSlice, "sums of the other K parts are exchanged in the slots");
  static_assert(kParts <= 32, "one bit per copy");

  // After which product of a step fragment load `load` is issued; after which product of the last step copy `part` is.
  static OCTAVO_HOST_DEVICE constexpr int load_position(int load) {
    return Schedule_::kLoadGap * kLoads <= kProducts ? load * Schedule_::kLoadGap : load * kProducts / (kLoads + 1);
  }
  static OCTAVO_HOST_DEVICE constexpr int copy_position(int part) {
    const int position = Schedule_::kCopyStart * kProducts / 32 + part * Schedule_::kCopyGap;
    return position < kProducts ? position : kProducts - 1;
  }
};

// The copying side: where the next slice comes from. Runs kStages slices ahead of the products.
template <class T>
struct SliceCopy {
  static constexpr bool kAsync = T::kCopies == Copies::async;
  // Rows beyond M or N: small tiles copy zeros for them, at three instructions a copy. The others read rows of the tile over again;
  // spread over all of them, since with one row every CTA waits for the same L2 line.
  static constexpr bool kMasked = T::kFragments == Fragments::streamed || T::kM * T::kN <= 128 * 96;
  const std::int8_t* x;  // first row of the tile, at the present k; the same for the whole CTA
  const std::int8_t* w;
  std::uint32_t x_offset[T::kPassesX];  // of this thread's chunk in each pass, bytes
  std::uint32_t w_offset[T::kPassesW];
  std::uint32_t valid;  // bit p: part p has a row of x or w
  int k_left;           // of the tile's K, from the present slice on; 0: no tile left, zeros are copied
  int tile;
  std::uint32_t x_to, w_to;  // this thread's chunk of either in slot 0
  int row, chunk;
  uint4 held[kAsync ? 1 : T::kParts];  // the next slice, when it travels by registers

  __device__ __forceinline__ void start(const GemmArgs& args, std::uint32_t shared) {
    row = int(threadIdx.x) / T::kChunks;
    chunk = int(threadIdx.x) % T::kChunks;
    x_to = shared + cuda::swizzled_offset<T::kK>(row, chunk);
    w_to = shared + T::kSliceX + cuda::w_swizzled_offset<T::kK>(row, chunk);
    tile = int(blockIdx.x);
    open_tile(args);
    if constexpr (!kAsync) fetch();
  }

  __device__ __forceinline__ void open_tile(const GemmArgs& args) {
    k_left = 0;
    if (tile >= args.tiles) return;
    const TilePosition at = locate_tile(tile, args.order);
    const GemmOperand& op = args.operand[at.group];
    const int m0 = at.m_tile * T::kM;
    const int n0 = at.n_tile * T::kN;
    const int k0 = int(blockIdx.y) * args.k_per_split;
    k_left = min(args.k - k0, args.k_per_split);
    x = op.x + m0 * op.x_stride + k0;
    w = op.w + n0 * op.w_stride + k0;
    valid = kMasked ? 0u : ~0u;
    const int x_rows = op.m - m0;
    const int w_rows = args.n - n0;
#pragma unroll
    for (int pass = T::kPassesX - 1; pass >= 0; --pass) x_offset[pass] = offset_of(row + pass * T::kRowsPerPass, x_rows, op.x_stride, pass);
#pragma unroll
    for (int pass = T::kPassesW - 1; pass >= 0; --pass) w_offset[pass] = offset_of(row + pass * T::kRowsPerPass, w_rows, op.w_stride, T::kPassesX + pass);
  }

  __device__ __forceinline__ std::uint32_t offset_of(int tile_row, int rows, std::int64_t stride, int part) {
    if (kMasked) {
      if (tile_row < rows) valid |= 1u << part;
    } else if (tile_row >= rows) {
      tile_row %= rows;
    }
    return std::uint32_t(tile_row) * std::uint32_t(stride) + chunk * cuda::kChunkBytes;
  }

  // The last pass may be shorter than the CTA.
  __device__ __forceinline__ bool in_tile(int part) const {
    const int rows = part < T::kPassesX ? T::kM : T::kN;
    const int first = (part < T::kPassesX ? part : part - T::kPassesX) * T::kRowsPerPass;
    return first + T::kRowsPerPass <= rows || row + first < rows;
  }

  __device__ __forceinline__ const std::int8_t* from(int part) const { return part < T::kPassesX ? x + x_offset[part] : w + w_offset[part - T::kPassesX]; }

  // Bits of the parts that bring bytes of the present slice: none where K has ended.
  __device__ __forceinline__ std::uint32_t wanted() const { return k_left > chunk * cuda::kChunkBytes ? valid : 0; }

  // One chunk of the next slice into the slot at byte `slot`; `bits` is wanted().
  __device__ __forceinline__ void copy_part(int part, std::uint32_t slot, std::uint32_t bits) {
    if (in_tile(part)) write_part(part, slot, bits);
  }

  __device__ __forceinline__ void write_part(int part, std::uint32_t slot, std::uint32_t bits) const {
    const int first = (part < T::kPassesX ? part : part - T::kPassesX) * T::kRowsPerPass;
    // Rows of a pass are below kRowsPerPass, so the swizzle of `first` joins theirs by an exclusive or.
    const std::uint32_t flip = part < T::kPassesX ? 0u : std::uint32_t(cuda::w_swizzle<T::kK>(first) * cuda::kChunkBytes);
    const std::uint32_t at = (((part < T::kPassesX ? x_to : w_to) + slot) ^ flip) + std::uint32_t(first * T::kK);
    if constexpr (kAsync) {
      cuda::cp_async_16b_or_zero(at, from(part), kMasked ? bits & (1u << part) : bits);
    } else {
      cuda::store_shared_16b(at, held[part]);
    }
  }

  // The whole of it.
  __device__ __forceinline__ void refill(const GemmArgs& args, std::uint32_t slot) {
    const std::uint32_t bits = wanted();
#pragma unroll
    for (int part = 0; part < T::kParts; ++part) copy_part(part, slot, bits);
    next_slice(args);
  }

  __device__ __forceinline__ void fetch() {
    const std::uint32_t bits = wanted();
#pragma unroll
    for (int part = 0; part < T::kParts; ++part) {
      held[part] = make_uint4(0, 0, 0, 0);
      if (in_tile(part) && (bits & (1u << part)) != 0) held[part] = __ldg(reinterpret_cast<const uint4*>(from(part)));
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
  // Everything has arrived, also what belongs to no group yet.
  static __device__ __forceinline__ void wait_for_all() {
    if constexpr (kAsync) {
      cuda::cp_async_commit();
      cuda::cp_async_wait<0>();
    }
  }
};

// The scales of the tile that is being multiplied, on their way to shared memory beside its slices. Biases, which few layers have, are read
// when they are needed: their room would cost the 128 × 128 tile its second CTA on GPUs with 100 KiB.
template <class T>
__device__ __forceinline__ void copy_scales(const GemmArgs& args, const GemmOperand& op, int m0, int n0, std::uint32_t shared) {
  if (args.out == Out::s32) return;
  constexpr int kCount = T::kM + T::kN;
#pragma unroll
  for (int first = 0; first < kCount; first += T::kThreads) {
    const int i = first + int(threadIdx.x);
    if (i >= kCount) continue;
    const bool is_x = i < T::kM;
    const int index = is_x ? m0 + i : n0 + i - T::kM;
    const bool there = index < (is_x ? op.m : args.n);
    const float* from = (is_x ? op.x_scale : op.w_scale) + (there ? index : 0);
    const std::uint32_t to = shared + T::kScales + i * 4;
    if constexpr (T::kCopies == Copies::async) {
      cuda::cp_async_4b_or_zero(to, from, there);
    } else {
      cuda::store_shared_4b(to, there ? __float_as_uint(__ldg(from)) : 0);
    }
  }
}

// The computing side of one warp.
template <class T>
struct WarpProduct {
  int acc[T::kBlocksM][T::kBlocksN][4];
  std::uint32_t x_base, w_base;  // this lane's ldmatrix rows in slot 0, step 0 of this warp

  __device__ __forceinline__ void start(std::uint32_t shared, int warp_m, int warp_n, int warp_k, int lane) {
    x_base = shared + cuda::swizzled_offset<T::kK>(warp_m * T::kWarpM + cuda::a_lane_row(lane), cuda::a_lane_chunk(lane));
    w_base = shared + T::kSliceX + cuda::w_swizzled_offset<T::kK>(warp_n * T::kWarpN + cuda::b_lane_row(lane), cuda::b_lane_chunk(lane));
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

  __device__ __forceinline__ void multiply(int m, int n, const std::uint32_t (&a)[4], const std::uint32_t (&b)[4]) {
    const int half = n % 2 * 2;
    if constexpr (T::kCopies == Copies::async) {
      cuda::mma_m16n8k32_s8(acc[m][n], a, b[half], b[half + 1]);
    } else {
      cuda::mma_m16n8k32_s8_in_quarters(acc[m][n], a, b[half], b[half + 1]);
    }
  }

  // A step's chunks are the first step's with address bits flipped: offsets of rows never touch them.
  __device__ __forceinline__ void load_x(std::uint32_t (&a)[4], std::uint32_t slot, int step, int block) const {
    cuda::ldmatrix_x4(a, ((x_base + slot) ^ std::uint32_t(step * kStepBytes)) + block * kMmaM * T::kK);
  }
  __device__ __forceinline__ void load_w(std::uint32_t (&b)[4], std::uint32_t slot, int step, int pair) const {
    cuda::ldmatrix_x4(b, ((w_base + slot) ^ std::uint32_t(step * kStepBytes)) + cuda::b_pair_row(pair) * T::kK);
  }
  // Load number `load` of a step, in the order of first use: x block 0, all of w, the other x blocks.
  __device__ __forceinline__ void load_in_order(int load, std::uint32_t (&a)[T::kBlocksM][4], std::uint32_t (&b)[T::kPairs][4], std::uint32_t slot,
                                                int step) const {
    if (load == 0) return load_w(b[0], slot, step, 0);
    if (load == 1) return load_x(a[0], slot, step, 0);
    if (load <= T::kPairs) return load_w(b[load - 1], slot, step, load - 1);
    load_x(a[load - T::kPairs], slot, step, load - T::kPairs);
  }
};

template <class T>
struct StoreEpilogue;

// The scales of one warp's rows and columns, in shared memory.
struct TileScales {
  const float* x;  // [kWarpM]
  const float* w;  // [kWarpN]
};

// `Epilogue` turns a finished tile into stored numbers: operator()(args, operand, product, scales, m0, n0, lane) for the sums of one warp, whose
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

  SliceCopy<T> copy;
  copy.start(args, shared);
#pragma unroll 1
  for (int stage = 0; stage < T::kStages; ++stage) copy.refill(args, stage * T::kSlice);

  WarpProduct<T> product;
  product.start(shared, warp_m, warp_n, warp_k, lane);
  const int slices = (min(args.k - int(blockIdx.y) * args.k_per_split, args.k_per_split) + T::kK - 1) / T::kK;
  std::uint32_t slot = 0;  // byte offset of the slot being multiplied

  copy.template wait<T::kStages - 1>();
  __syncthreads();

  for (int tile = int(blockIdx.x); tile < args.tiles; tile += int(gridDim.x)) {
    product.clear();
    constexpr bool kDoubled = T::kFragments == Fragments::doubled;
    std::uint32_t a[2][kDoubled ? T::kBlocksM : 1][4];
    std::uint32_t b[kDoubled ? 2 : 1][T::kPairs][4];
    // The first fragments. Asked for again here rather than kept through the epilogue, which wants the registers.
    if constexpr (kDoubled) {
#pragma unroll
      for (int load = 0; load < T::kLoads; ++load) product.load_in_order(load, a[0], b[0], slot, 0);
    } else {
      product.load_x(a[0][0], slot, 0, 0);
#pragma unroll
      for (int pair = 0; pair < T::kPairs; ++pair) product.load_w(b[0][pair], slot, 0, pair);
    }

#pragma unroll 1
    for (int slice = 0; slice < slices; ++slice) {
      std::uint32_t next_slot = slot + T::kSlice;
      if (next_slot == T::kStages * T::kSlice) next_slot = 0;
      // The one barrier: every thread's copies of the next slice have landed, and this slot has been read.
      const auto hand_over = [&] {
        copy.template wait<T::kStages - 2>();
        __syncthreads();
      };
      const auto start_scales = [&] {  // behind the barrier
        if (slice == 0) {              // all warps have left the last epilogue
          const TilePosition at = locate_tile(tile, args.order);
          copy_scales<T>(args, args.operand[at.group], at.m_tile * T::kM, at.n_tile * T::kN, shared);
        }
      };
      const std::uint32_t bits = copy.wanted();
#pragma unroll
      for (int step = 0; step < T::kSteps; ++step) {
        const bool last_step = step == T::kSteps - 1;
        const std::uint32_t ahead_slot = last_step ? next_slot : slot;
        const int ahead_step = last_step ? 0 : step + 1;
        if constexpr (kDoubled) {
          const int now = step & 1;
          if (last_step) {
            hand_over();
            start_scales();
          }
#pragma unroll
          for (int m = 0; m < T::kBlocksM; ++m) {
#pragma unroll
            for (int i = 0; i < T::kBlocksN; ++i) {
              const int n = m % 2 == 0 ? i : T::kBlocksN - 1 - i;  // there and back: consecutive products share a or b
              product.multiply(m, n, a[now][m], b[now][n / 2]);
              const int done = m * T::kBlocksN + i;
#pragma unroll
              for (int load = 0; load < T::kLoads; ++load) {
                if (T::load_position(load) == done) product.load_in_order(load, a[now ^ 1], b[now ^ 1], ahead_slot, ahead_step);
              }
              if (last_step) {
#pragma unroll
                for (int part = 0; part < T::kParts; ++part) {
                  if (T::copy_position(part) == done) copy.copy_part(part, slot, bits);
                }
              }
            }
          }
          if (last_step) copy.next_slice(args);
        } else {
#pragma unroll
          for (int m = 0; m < T::kBlocksM; ++m) {
            const bool last_row = m == T::kBlocksM - 1;
            const int now = (step * T::kBlocksM + m) & 1;
            if (last_step && last_row) {
              hand_over();
              start_scales();
              copy.refill(args, slot);
            }
            product.load_x(a[now ^ 1][0], last_row ? ahead_slot : slot, last_row ? ahead_step : step, last_row ? 0 : m + 1);
#pragma unroll
            for (int n = 0; n < T::kBlocksN; ++n) {
              product.multiply(m, n, a[now][0], b[0][n / 2]);
              if (last_row && n % 2 == 1) product.load_w(b[0][n / 2], ahead_slot, ahead_step, n / 2);
            }
          }
        }
      }
      slot = next_slot;
    }

    if (slices <= T::kStages) {  // the scales were copied beside slice 0: later barriers may not have waited for them
      copy.wait_for_all();
      __syncthreads();
    }

    if constexpr (T::kWarpsK > 1) {
      // Adds the sums of the other K parts. Every slot is idle or holds only zeros by now: a CTA with K parts computes one tile (GemmArgs.tiles <= gridDim.x).
      copy.wait_for_all();
      __syncthreads();
      int* exchange = reinterpret_cast<int*>(shared_bytes);
      constexpr int kSums = T::kProducts * 4;
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

    const TilePosition at = locate_tile(tile, args.order);
    const float* scales = reinterpret_cast<const float*>(shared_bytes + T::kScales);
    const TileScales here{scales + warp_m * T::kWarpM, scales + T::kM + warp_n * T::kWarpN};
    Epilogue{}(args, args.operand[at.group], product, here, at.m_tile * T::kM + warp_m * T::kWarpM, at.n_tile * T::kN + warp_n * T::kWarpN, lane);
  }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr bool kHasAsyncCopies = false;
#else
inline constexpr bool kHasAsyncCopies = true;
#endif
// On sm_120 Turing's m8n8k16 costs more moves than products, and its large tiles do not fit the registers (552 bytes of local memory): not built there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
inline constexpr bool kHasSmallProducts = false;
#else
inline constexpr bool kHasSmallProducts = true;
#endif

template <class T, class Epilogue = StoreEpilogue<T>>
__global__ void __launch_bounds__(T::kThreads, T::kMinCtas) gemm_w8a8_mma(const __grid_constant__ GemmArgs args) {
  if constexpr (T::kCopies == Copies::registers ? kHasSmallProducts : kHasAsyncCopies) gemm_w8a8_mma_body<T, Epilogue>(args);
}

}  // namespace octavo::device

#include "ops/linear/device/store_epilogue.cuh"
