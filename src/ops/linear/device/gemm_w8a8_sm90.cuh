// The W8A8 product on Hopper: wgmma fed by the copy engine, warp-specialised, persistent.
//   y[m,n] = finish( ((float(Σ_k x[m,k] · w[n,k]) · x_scale[m]) · w_scale[n]) + bias[n] )     x s8 [M,K], w s8 [N,K]; numerics.md sections 4, 5
//
// Who does what, in a CTA of 384 threads:
//   warpgroup 0   one thread issues all loads, up to kStages k blocks ahead and across tiles; the rest has handed its registers back and waits
//   warpgroup 1   consumer 0       ping-pong: every other tile, the consumers take turns      cooperative: upper half of the tile's rows
//   warpgroup 2   consumer 1                                                                               lower half
//
// Ping-pong, 128 × 192, cluster 2 × 1 (two tiles along M share w):
//
//            w tile, 192 rows: 0-95 loaded by CTA 0, 96-191 by CTA 1, each copied into both CTAs (multicast)
//        +----------------+      consumer 0  | products of tile 0 | epilogue |  waits  | products of tile 2 | …
//  CTA 0 | 64 x rows, own |      consumer 1  |       waits        | products of tile 1 | epilogue | waits   | …
//        | 64             |
//        +----------------+      The tensor cores always have one consumer's products; the epilogue costs them nothing.
//  CTA 1 | 64             |
//        | 64             |      Cooperative, 128 × 256: each consumer has 64 rows of the same tile, so w is loaded once for both, but the epilogues
//        +----------------+      coincide and the tensor cores rest meanwhile. Starting consumer 1 two k blocks later changed nothing measurable.
//
// Shared memory: kStages × (x tile [kTileM][128 B], w tile [kTileN][128 B], both in the 128-byte swizzle) | 8 slabs |
//                2 × kTileN w scales | Hot::heads: 2 × kTileN weights of the norm | full[kStages], empty[kStages].
// full[s]: the loads of stage s have landed in this CTA. empty[s]: all consumers of the cluster are done with stage s, here and at the peer.
#pragma once

#include "cuda/cluster_sm90.cuh"
#include "cuda/mbarrier_sm90.cuh"
#include "cuda/overlap.cuh"
#include "cuda/row/values.cuh"
#include "cuda/shared.cuh"
#include "cuda/tma_sm90.cuh"
#include "cuda/wgmma_sm90.cuh"
#include "ops/linear/device/epilogue_sm90.cuh"
#include "ops/linear/device/params_sm90.cuh"

namespace octavo::sm90 {

inline constexpr int kWarpgroup = 128;
inline constexpr int kConsumers = 2;
inline constexpr int kThreads = kWarpgroup * (1 + kConsumers);
inline constexpr int kTileK = 128;          // bytes: one swizzled row. 64 was tried (finer stages): its loads run at three quarters of the rate
inline constexpr int kBarrierConsumer = 1;  // named barriers 1, 2: the threads of one consumer
inline constexpr int kBarrierTurn = 3;      // ping-pong: 3, 4: it is the turn of consumer 0, 1

// 168 × 384 registers at launch = 40 × 128 + 232 × 256.
inline constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;

// The one epilogue of a shape that has no registers for all of them.
enum class Hot { plain, pairs, heads };

template <int kTileM_, int kTileN_, int kStages_, int kClusterM_, int kClusterN_, bool kPingPong_, Hot kHot_ = Hot::plain>
struct Shape {
  static constexpr int kTileM = kTileM_, kTileN = kTileN_, kStages = kStages_, kClusterM = kClusterM_, kClusterN = kClusterN_;
  static constexpr bool kPingPong = kPingPong_;
  static constexpr int kCluster = kClusterM * kClusterN;
  static constexpr int kSharers = kClusterM + kClusterN - 1;  // CTAs that get a part of this CTA's tiles, itself included
  static_assert(kSharers <= 4, "one warp of a consumer speaks to one CTA");
  static constexpr int kConsumerRows = kPingPong ? kTileM : kTileM / kConsumers;
  static constexpr int kBlocksM = kConsumerRows / 64;  // m64 blocks of one consumer
  // More accumulators than 128 per thread leave no registers for the other epilogues, nor for two: such a shape takes plain bf16 without bias alone,
  // its twin for pairs silu_mul alone. A tile of Hot::heads is one head of q or k, which goes through head_norm_rope, or of v.
  static constexpr Hot kHot = kHot_;
  static constexpr bool kHotOnly = kBlocksM * kTileN / 2 > 128 || kHot == Hot::heads;
  using Pairs = Shape<kTileM_, kTileN_, kStages_, kClusterM_, kClusterN_, kPingPong_, Hot::pairs>;
  static constexpr bool kHalves = kHot != Hot::heads;  // tiles may be halved along N
  static_assert(kHot != Hot::heads || kTileN == kFusedHeadDim, "a tile is a head");
  static constexpr int kXBoxRows = kTileM / kClusterN;  // one load each
  static constexpr int kWBoxes = 2;                     // loads of w per CTA and k block; a half tile (along N) needs one
  static constexpr int kWBoxRows = kTileN / kWBoxes / kClusterM;
  static constexpr int kXBytes = kTileM * kTileK, kWBytes = kTileN * kTileK, kStageBytes = kXBytes + kWBytes;
  static constexpr int kSlabs = kStages * kStageBytes;
  static constexpr int kScales = kSlabs + kConsumers * 4 * kSlabBytes;
  static constexpr int kNorms = kScales + kConsumers * kTileN * 4;  // Hot::heads: weights of the norm
  static constexpr int kFull = kNorms + (kHot == Hot::heads ? kConsumers * kTileN * 4 : 0);
  static constexpr int kEmpty = kFull + kStages * 8;
  static constexpr int kSharedBytes = kEmpty + kStages * 8;
  static_assert(kSharedBytes <= 232448, "227 KiB per CTA");
  static_assert(kWBoxRows % 8 == 0 && kXBytes % 1024 == 0 && kStageBytes % 1024 == 0, "boxes start on a swizzle pattern");
};

// Where a tile's rows begin. The copy engine fills rows past the last one with zeros at 4 to 5 clocks a row (measured on an H200: 65 rows took 1.4 x the
// time of 128), so the last tile moves up and computes some rows a second time, to the same bits. A tile of nothing but such rows costs nothing and stays.
template <class S>
__device__ __forceinline__ int first_row(const Params& p, const Group& group, int m_tile) {
  const int row = m_tile * S::kTileM;
  const bool is_cut = row < group.m && row + S::kTileM > group.m;
  return is_cut && p.may_repeat_rows && group.m >= S::kTileM ? group.m - S::kTileM : row;
}

// A position in the ring of stages.
template <int kStages>
struct Ring {
  int stage = 0;
  std::uint32_t phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  // The position after `blocks` blocks from the start.
  static __device__ __forceinline__ Ring after(std::uint32_t blocks) {
    const std::uint32_t rounds = blocks / kStages;
    return {static_cast<int>(blocks - rounds * kStages), rounds & 1};
  }
};

// The producer: fills the ring with the k blocks of all items of this cluster, in order.
template <class S>
__device__ __forceinline__ void produce(const Params& p, std::uint32_t smem, int cluster, int clusters, int rank) {
  const int rank_m = rank % S::kClusterM;
  const int rank_n = rank / S::kClusterM;
  const std::uint64_t keep = cuda::l2_evict_last();
  std::uint16_t along_n = 0;  // CTAs with the same rows of x
  for (int n = 0; n < S::kClusterN; ++n) along_n |= static_cast<std::uint16_t>(1 << (n * S::kClusterM + rank_m));
  const auto along_m = static_cast<std::uint16_t>(((1 << S::kClusterM) - 1) << (rank_n * S::kClusterM));  // CTAs with the same rows of w
  Ring<S::kStages> ring;
  for (int item = cluster; item < p.order.items; item += clusters) {
    const Tile tile = tile_of_item(p.order, item);
    const Group& group = p.group[tile.group];
    const bool half = tile.half >= 0;
    const int boxes = half ? 1 : S::kWBoxes;
    const std::uint32_t bytes = half ? S::kXBytes + S::kWBytes / 2 : S::kStageBytes;
    const int x_in_tile = rank_n * S::kXBoxRows;
    int x_row = first_row<S>(p, p.group[tile.group], tile.m_tile * S::kClusterM + rank_m) + x_in_tile;
    const int w_in_tile = rank_m * boxes * S::kWBoxRows;
    const int w_row = (tile.n_tile * S::kClusterN + rank_n) * S::kTileN + (half ? tile.half * (S::kTileN / 2) : 0) + w_in_tile;
    // Boxes wholly outside read row 0 instead, and nothing of them is stored: filling them with zeros was seen to take twice as long as loading.
    if (x_row >= group.m) x_row = 0;
    for (int block = 0; block < p.k_blocks; ++block) {
      const std::uint32_t full = smem + S::kFull + ring.stage * 8;
      const std::uint32_t x_tile = smem + ring.stage * S::kStageBytes;
      const std::uint32_t w_tile = x_tile + S::kXBytes;
      cuda::mbarrier_wait(smem + S::kEmpty + ring.stage * 8, ring.phase ^ 1);
      cuda::mbarrier_arrive_expect_tx(full, bytes);
      const std::uint32_t x_part = x_tile + x_in_tile * kTileK;
      if constexpr (S::kClusterN > 1) {
        if (p.keep_x) {
          cuda::tma_load_2d_multicast(x_part, &group.x, block * kTileK, x_row, full, along_n, keep);
        } else {
          cuda::tma_load_2d_multicast(x_part, &group.x, block * kTileK, x_row, full, along_n);
        }
      } else if (p.keep_x) {
        cuda::tma_load_2d(x_part, &group.x, block * kTileK, x_row, full, keep);
      } else {
        cuda::tma_load_2d(x_part, &group.x, block * kTileK, x_row, full);
      }
      for (int box = 0; box < boxes; ++box) {
        const std::uint32_t destination = w_tile + (w_in_tile + box * S::kWBoxRows) * kTileK;
        const int row = w_row + box * S::kWBoxRows < p.n ? w_row + box * S::kWBoxRows : 0;
        if constexpr (S::kClusterM > 1) {
          cuda::tma_load_2d_multicast(destination, &group.w, block * kTileK, row, full, along_m);
        } else {
          cuda::tma_load_2d(destination, &group.w, block * kTileK, row, full);
        }
      }
      ring.advance();
    }
  }
}

__device__ __forceinline__ int thread_in_order() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// What a consumer keeps from tile to tile.
template <class S>
struct Consumer {
  std::uint32_t smem;  // shared address of the CTA's memory
  int tells;           // the CTA whose empty barriers this thread arrives at; -1: none

  using Sums = int[S::kBlocksM][S::kTileN / 2];

  // Read anew at every use: kept, they would be the registers that the accumulators lack.
  static __device__ __forceinline__ int index() { return thread_in_order() / kWarpgroup - 1; }  // consumer 0, 1
  static __device__ __forceinline__ int thread() { return thread_in_order() % kWarpgroup; }
  static __device__ __forceinline__ int warp() { return thread() / 32; }

  // The CTA that this warp tells about free stages: first those along M, then the others along N; -1: none.
  static __device__ __forceinline__ int listener(int warp, int rank) {
    const int rank_m = rank % S::kClusterM, rank_n = rank / S::kClusterM;
    if (warp < S::kClusterM) return rank_n * S::kClusterM + warp;
    if (warp >= S::kSharers) return -1;
    const int other = warp - S::kClusterM;
    return (other < rank_n ? other : other + 1) * S::kClusterM + rank_m;
  }

  // One arrival per consumer at every CTA that loads into this stage. A wgmma group is finished for the whole warpgroup at once, so one thread may
  // speak for it.
  __device__ __forceinline__ void release(int stage) const {
    if (tells >= 0) cuda::mbarrier_arrive_cluster(smem + S::kEmpty + stage * 8, tells);
  }

  // acc = the sums of one tile. Products of two blocks are queued, so a stage is released when the products of the next block begin.
  // Ping-pong: the turn goes to the other consumer once the last block has arrived, not sooner: a barrier's parity tells apart
  // neighbouring phases only, so a consumer must not wait for a stage before all earlier phases of it are known to be complete.
  template <int kN>
  __device__ __forceinline__ void accumulate(Sums& acc, Ring<S::kStages> ring, int k_blocks, bool pass_turn) const {
    if (S::kPingPong) cuda::named_barrier_sync(kBarrierTurn + index(), kConsumers * kWarpgroup);
    const std::uint32_t x_offset = S::kPingPong ? 0 : index() * S::kConsumerRows * kTileK;
    int previous = 0;
    for (int block = 0; block < k_blocks; ++block) {
      const std::uint32_t x_tile = smem + ring.stage * S::kStageBytes;
      const std::uint64_t x = cuda::wgmma_descriptor_128b(x_tile + x_offset);
      const std::uint64_t w = cuda::wgmma_descriptor_128b(x_tile + S::kXBytes);
      cuda::mbarrier_wait(smem + S::kFull + ring.stage * 8, ring.phase);
      cuda::wgmma_fence();
#pragma unroll
      for (int k = 0; k < kTileK / 32; ++k) {
#pragma unroll
        for (int i = 0; i < S::kBlocksM; ++i) {
          cuda::wgmma_m64k32_s8<kN>(acc[i], x + (i * 64 * kTileK + k * 32) / 16, w + k * 32 / 16, block > 0 || k > 0);
        }
      }
      cuda::wgmma_commit();
      cuda::wgmma_wait<1>();
      if (block > 0) release(previous);
      previous = ring.stage;
      ring.advance();
    }
    if (S::kPingPong && pass_turn) cuda::named_barrier_arrive(kBarrierTurn + 1 - index(), kConsumers * kWarpgroup);
    cuda::wgmma_wait<0>();
    release(previous);
  }

  // This tile's w scales travel through two registers per thread during the main loop, then through shared memory to all threads of the consumer.
  template <int kN>
  struct WScales {
    static constexpr int kPerThread = (kN + kWarpgroup - 1) / kWarpgroup;
    float value[kPerThread];
  };
  template <int kN>
  __device__ __forceinline__ WScales<kN> fetch_scales(const Params& p, const Group& group, int col0) const {
    WScales<kN> scales;
#pragma unroll
    for (int i = 0; i < WScales<kN>::kPerThread; ++i) {
      const int column = col0 + i * kWarpgroup + thread();
      scales.value[i] = column < p.n ? __ldg(group.w_scale + column) : 0.0f;
    }
    return scales;
  }
  template <int kN>
  __device__ __forceinline__ std::uint32_t share_scales(const WScales<kN>& scales, const Params& p, int col0) const {
    const std::uint32_t shared = smem + S::kScales + index() * S::kTileN * 4;
    cuda::named_barrier_sync(kBarrierConsumer + index(), kWarpgroup);  // all warps have read the previous tile's scales
#pragma unroll
    for (int i = 0; i < WScales<kN>::kPerThread; ++i) {
      if (kN % kWarpgroup == 0 || i * kWarpgroup + thread() < kN)
        cuda::store_shared_4b(shared + (i * kWarpgroup + thread()) * 4, __float_as_uint(scales.value[i]));
    }
    if constexpr (S::kHot == Hot::heads) {
      if (col0 < 2 * p.heads.columns) {
        const void* weight = col0 < p.heads.columns ? p.heads.weight[0] : p.heads.weight[1];
#pragma unroll
        for (int column = thread(); column < kN; column += kWarpgroup)
          cuda::store_shared_4b(norms() + column * 4, __float_as_uint(cuda::load_one(weight, p.heads.weight_type, column)));
      }
    }
    cuda::named_barrier_sync(kBarrierConsumer + index(), kWarpgroup);
    return shared;
  }

  __device__ __forceinline__ std::uint32_t norms() const { return smem + S::kNorms + index() * S::kTileN * 4; }

  template <int kN>
  __device__ __forceinline__ void run_tile(Sums& acc, const Params& p, const Group& group, Ring<S::kStages> ring, int tile_row, int col0,
                                           bool pass_turn) const {
    const int row0 = tile_row + (S::kPingPong ? 0 : index() * S::kConsumerRows) + warp() * kSlabRows;  // this warp's rows of block 0
    const std::uint32_t slab = smem + S::kSlabs + (index() * 4 + warp()) * kSlabBytes;
    if (!S::kHotOnly && !p.direct) {
      accumulate<kN>(acc, ring, p.k_blocks, pass_turn);
#pragma unroll
      for (int i = 0; i < S::kBlocksM; ++i) store_general<kN>(acc[i], p, group, row0 + i * 64, col0, slab);
      return;
    }
    const WScales<kN> w_scales = fetch_scales<kN>(p, group, col0);
    accumulate<kN>(acc, ring, p.k_blocks, pass_turn);
    const std::uint32_t w_scale = share_scales<kN>(w_scales, p, col0);
#pragma unroll
    for (int i = 0; i < S::kBlocksM; ++i) {
      if (row0 + i * 64 >= group.m) continue;
      if constexpr (S::kHot == Hot::heads) {
        if (col0 < 2 * p.heads.columns) {
          store_direct_heads<kN>(acc[i], p, group, row0 + i * 64, col0, w_scale, norms(), slab);
        } else {
          store_direct<kN, false>(acc[i], p, group, row0 + i * 64, col0, w_scale, slab);
        }
      } else if (S::kHotOnly ? S::kHot == Hot::pairs : p.finish == Finish::silu_mul) {
        store_direct_pairs<kN>(acc[i], p, group, row0 + i * 64, col0, w_scale, slab);
      } else if (!S::kHotOnly && group.bias != nullptr) {
        store_direct<kN, true>(acc[i], p, group, row0 + i * 64, col0, w_scale, slab);
      } else {
        store_direct<kN, false>(acc[i], p, group, row0 + i * 64, col0, w_scale, slab);
      }
    }
  }

  __device__ __forceinline__ void run(const Params& p, int cluster, int clusters, int rank) const {
    const int rank_m = rank % S::kClusterM;
    const int rank_n = rank / S::kClusterM;
    if (S::kPingPong && index() == 1) cuda::named_barrier_arrive(kBarrierTurn, kConsumers * kWarpgroup);  // consumer 0 begins
    // One array for whole and half tiles, and for all tiles: wgmma reads what it overwrites, as far as the compiler knows, so two would both stay live.
    Sums acc;
    // Ping-pong: consumer 1 begins with the cluster's second item, and each leaves out the other's.
    for (int turn = S::kPingPong ? index() : 0;; turn += S::kPingPong ? kConsumers : 1) {
      const int item = cluster + turn * clusters;
      if (item >= p.order.items) break;
      const Ring<S::kStages> ring = Ring<S::kStages>::after(static_cast<std::uint32_t>(turn) * p.k_blocks);
      const Tile tile = tile_of_item(p.order, item);
      const Group& group = p.group[tile.group];
      const int row = first_row<S>(p, group, tile.m_tile * S::kClusterM + rank_m);
      const int column = (tile.n_tile * S::kClusterN + rank_n) * S::kTileN;
      const bool pass_turn = item + clusters < p.order.items;
      if constexpr (S::kHalves) {
        if (tile.half >= 0) {
          run_tile<S::kTileN / 2>(acc, p, group, ring, row, column + tile.half * (S::kTileN / 2), pass_turn);
          continue;
        }
      }
      run_tile<S::kTileN>(acc, p, group, ring, row, column, pass_turn);
    }
  }
};

template <class S>
__global__ void __launch_bounds__(kThreads, 1) gemm_w8a8_sm90(const __grid_constant__ Params p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) std::uint8_t memory[];
  const std::uint32_t smem = cuda::shared_address(memory);
  const int role = threadIdx.x / kWarpgroup;
  const int rank = S::kCluster > 1 ? static_cast<int>(cuda::cluster_rank()) : 0;
  const int cluster = blockIdx.x / S::kCluster;
  const int clusters = gridDim.x / S::kCluster;

  if (threadIdx.x == 0) {
    cuda::prefetch_tensor_map(&p.group[0].x);
    cuda::prefetch_tensor_map(&p.group[0].w);
    constexpr int kReaders = S::kPingPong ? 1 : kConsumers;  // consumers that read one stage, per CTA
    for (int stage = 0; stage < S::kStages; ++stage) {
      cuda::mbarrier_init(smem + S::kFull + stage * 8, 1);
      cuda::mbarrier_init(smem + S::kEmpty + stage * 8, kReaders * S::kSharers);
    }
    cuda::fence_mbarrier_init();
  }
  cuda::cluster_sync();  // no load may reach a peer whose barriers do not exist yet
  cuda::wait_for_predecessor();
  cuda::let_successor_begin();

  if (role == 0) {
    cuda::setmaxnreg_dec<kProducerRegisters>();
    if (threadIdx.x == 0) produce<S>(p, smem, cluster, clusters, rank);
    __syncwarp();
  } else {
    cuda::setmaxnreg_inc<kConsumerRegisters>();
    const int tells = threadIdx.x % 32 == 0 ? Consumer<S>::listener(threadIdx.x % kWarpgroup / 32, rank) : -1;
    Consumer<S>{smem, tells}.run(p, cluster, clusters, rank);
  }
  cuda::cluster_sync();  // a peer may still write to, or arrive at, this CTA's shared memory
#endif
}

}  // namespace octavo::sm90
