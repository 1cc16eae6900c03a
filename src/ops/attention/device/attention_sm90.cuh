// Attention on Hopper: wgmma fed by TMA, one producer and two consumer warpgroups, softmax of one tile while PV of the tile before runs
// (FlashAttention-3, arXiv 2407.08608, sections 3.1 and 3.2). A CTA takes 128 queries of one head; a consumer owns 64 of them and their output rows.
// Shared memory in panels of 64 columns, rows of 128 bytes in the 128-byte swizzle: Q 64 KB, two stages of 80 keys and 80 values 160 KB.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/cluster_sm90.cuh"
#include "cuda/convert.cuh"
#include "cuda/exp2.cuh"
#include "cuda/mbarrier_sm90.cuh"
#include "cuda/overlap.cuh"
#include "cuda/row/reduce.cuh"
#include "cuda/shared.cuh"
#include "cuda/tma_sm90.cuh"
#include "cuda/wgmma_float_sm90.cuh"

namespace octavo::attention_sm90 {

constexpr int kHeadDim = 256;
constexpr int kKeys = 80;  // a multiple of 16 whose two stages still fit
constexpr int kConsumers = 2;
constexpr int kRows = 64;  // queries of a consumer
constexpr int kQueries = kConsumers * kRows;
constexpr int kStages = 2;
constexpr int kWarpgroup = 128;
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kPanels = kHeadDim / 64;
constexpr int kRowBytes = 128;  // of a panel
constexpr int kQPanelBytes = kRows * kRowBytes;
constexpr int kQBytes = kConsumers * kPanels * kQPanelBytes;
constexpr int kTilePanelBytes = kKeys * kRowBytes;
constexpr int kTileBytes = kPanels * kTilePanelBytes;
constexpr int kK = kQBytes, kV = kK + kStages * kTileBytes, kBarriers = kV + kStages * kTileBytes;
constexpr int kFullQ = kBarriers, kFullK = kFullQ + 8, kEmptyK = kFullK + 8 * kStages, kFullV = kEmptyK + 8 * kStages, kEmptyV = kFullV + 8 * kStages;
constexpr int kSharedBytes = kEmptyV + 8 * kStages;
constexpr int kWarps = 4;  // of a consumer; each tells when it has read a stage
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
static_assert(kSharedBytes <= 227 * 1024 && kTilePanelBytes % 1024 == 0, "fits, and panels begin on whole swizzle patterns");

struct Params {
  CUtensorMap q, k, v;  // boxes of 64 columns; 64, 80 and 80 rows
  void* y;
  long long y_stride;  // elements
  int queries;
  int keys;
  int tiles;      // of keys
  int kv_groups;  // query heads that share a key head
  int q_tiles;    // of 128 queries, a head
  int whole;      // CTAs that take 128 queries; two each take the halves of a tile behind these, see Work
  float to_log2;  // softmax_scale · log2 e
};

// What a CTA does. Tiles that do not fill the GPU's last wave are cut in two, if the halves still fit in it: a CTA with one consumer is done sooner. A row's
// bits are the same either way.
struct Work {
  int first_query, head, consumers;
  __device__ __forceinline__ explicit Work(const Params& p) {
    const int index = int(blockIdx.x), beyond = index - p.whole;
    const int tile = beyond < 0 ? index : p.whole + beyond / 2;
    head = tile / p.q_tiles;
    first_query = tile % p.q_tiles * kQueries + (beyond < 0 ? 0 : beyond % 2 * kRows);
    consumers = beyond < 0 ? kConsumers : 1;
  }
};

__device__ __forceinline__ void produce(const Params& p, std::uint32_t smem, const Work& work) {
  cuda::mbarrier_arrive_expect_tx(smem + kFullQ, std::uint32_t(work.consumers * kPanels * kQPanelBytes));
  for (int consumer = 0; consumer < work.consumers; ++consumer) {
    for (int panel = 0; panel < kPanels; ++panel) {
      cuda::tma_load_2d(smem + (consumer * kPanels + panel) * kQPanelBytes, &p.q, work.head * kHeadDim + panel * 64, work.first_query + consumer * kRows,
                        smem + kFullQ);
    }
  }
  const int column = work.head / p.kv_groups * kHeadDim;
  const auto load = [&](const CUtensorMap& map, int tiles_at, int full, int empty, int tile) {
    const int stage = tile % kStages;
    // The first round finds the stages empty: waiting for the phase before the first passes at once.
    cuda::mbarrier_wait(smem + empty + 8 * stage, std::uint32_t(tile / kStages + 1) & 1);
    cuda::mbarrier_arrive_expect_tx(smem + full + 8 * stage, kTileBytes);
    for (int panel = 0; panel < kPanels; ++panel) {
      cuda::tma_load_2d(smem + tiles_at + stage * kTileBytes + panel * kTilePanelBytes, &map, column + panel * 64, tile * kKeys, smem + full + 8 * stage);
    }
  };
  load(p.k, kK, kFullK, kEmptyK, 0);
  for (int tile = 0; tile < p.tiles; ++tile) {  // in the order in which the consumers ask
    if (tile + 1 < p.tiles) load(p.k, kK, kFullK, kEmptyK, tile + 1);
    load(p.v, kV, kFullV, kEmptyV, tile);
  }
}

__device__ __forceinline__ void tell(std::uint32_t barrier) {
  if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// What one thread keeps of its two rows.
struct Rows {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};
};

// Scores of a tile into probabilities, and by how much earlier sums shrink.
__device__ __forceinline__ void softmax(float* score, Rows& rows, float* shrink, float to_log2) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float largest = rows.max[r];
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) largest = fmaxf(largest, fmaxf(score[4 * n + 2 * r], score[4 * n + 2 * r + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(cuda::kAllLanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(cuda::kAllLanes, largest, 2));
    shrink[r] = cuda::exp2_fast((rows.max[r] - largest) * to_log2);
    rows.max[r] = largest;
    const float shift = largest * to_log2;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        float& s = score[4 * n + 2 * r + b];
        s = cuda::exp2_fast(__fmaf_rn(s, to_log2, -shift));
        sum += s;
      }
    }
    rows.sum[r] = __fmaf_rn(rows.sum[r], shrink[r], sum);
  }
}

// Probabilities as the left side of the next product.
template <cuda::RowType Type>
__device__ __forceinline__ void pack(const float* score, std::uint32_t (&p)[kKeys / 16][4]) {
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = score[8 * k + 2 * i], high = score[8 * k + 2 * i + 1];
      p[k][i] = Type == cuda::RowType::bf16 ? cuda::pack_bf16x2(low, high) : cuda::pack_f16x2(low, high);
    }
  }
}

// score = Q · K(tile)ᵀ of this consumer's 64 rows, left under way.
template <cuda::RowType Type>
__device__ __forceinline__ void start_scores(float* score, std::uint32_t q, std::uint32_t k) {
  cuda::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    const std::uint64_t a = cuda::wgmma_descriptor_128b(q + step / 4 * kQPanelBytes + step % 4 * 32);
    const std::uint64_t b = cuda::wgmma_descriptor_128b(k + step / 4 * kTilePanelBytes + step % 4 * 32);
    cuda::wgmma_m64n80k16<Type>(score, a, b, step != 0);
  }
  cuda::wgmma_commit();
}

// out += P · V(tile), left under way.
template <cuda::RowType Type>
__device__ __forceinline__ void start_output(float* out, const std::uint32_t (&p)[kKeys / 16][4], std::uint32_t v) {
  cuda::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step) {
    cuda::wgmma_m64n256k16_registers<Type>(out, p[step], cuda::wgmma_descriptor_128b_depth_rows(v + step * 16 * kRowBytes, kTilePanelBytes));
  }
  cuda::wgmma_commit();
}

template <cuda::RowType Type>
__device__ __forceinline__ void consume(const Params& p, std::uint32_t smem, const Work& work) {
  const int thread = int(threadIdx.x) % kWarpgroup, consumer = int(threadIdx.x) / kWarpgroup - 1;
  if (consumer >= work.consumers) return;
  const int warp = thread / 32, lane = thread % 32;
  const std::uint32_t q = smem + std::uint32_t(consumer * kPanels * kQPanelBytes);
  const auto stage_of = [&](int at, int tile) { return smem + std::uint32_t(at + tile % kStages * kTileBytes); };
  const auto parity_of = [](int tile) { return std::uint32_t(tile / kStages) & 1; };

  float score[kKeys / 2], out[kHeadDim / 2], shrink[2];
  std::uint32_t packed[kKeys / 16][4];
  Rows rows;
#pragma unroll
  for (float& value : out) value = 0;

  const auto hide_past_end = [&](int tile) {
    if ((tile + 1) * kKeys <= p.keys) return;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      if (tile * kKeys + i / 4 * 8 + lane % 4 * 2 + i % 2 >= p.keys) score[i] = -INFINITY;
    }
  };

  cuda::mbarrier_wait(smem + kFullQ, 0);
  cuda::mbarrier_wait(smem + kFullK, 0);
  start_scores<Type>(score, q, stage_of(kK, 0));
  cuda::wgmma_wait<0>();
  cuda::wgmma_settled(score);
  tell(smem + kEmptyK);
  hide_past_end(0);
  softmax(score, rows, shrink, p.to_log2);
  pack<Type>(score, packed);

  for (int tile = 1; tile < p.tiles; ++tile) {
    const int stage = tile % kStages, before = (tile - 1) % kStages;
    cuda::mbarrier_wait(smem + kFullK + 8 * stage, parity_of(tile));
    start_scores<Type>(score, q, stage_of(kK, tile));
    cuda::mbarrier_wait(smem + kFullV + 8 * before, parity_of(tile - 1));
    start_output<Type>(out, packed, stage_of(kV, tile - 1));
    cuda::wgmma_wait<1>();  // the scores; the output may still be under way
    cuda::wgmma_settled(score);
    tell(smem + kEmptyK + 8 * stage);
    hide_past_end(tile);
    softmax(score, rows, shrink, p.to_log2);
    cuda::wgmma_wait<0>();
    cuda::wgmma_settled(out);
    tell(smem + kEmptyV + 8 * before);
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) out[i] *= shrink[i / 2 % 2];
    pack<Type>(score, packed);
  }
  const int last = (p.tiles - 1) % kStages;
  cuda::mbarrier_wait(smem + kFullV + 8 * last, parity_of(p.tiles - 1));
  start_output<Type>(out, packed, stage_of(kV, p.tiles - 1));
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = rows.sum[r];
    sum += __shfl_xor_sync(cuda::kAllLanes, sum, 1);
    sum += __shfl_xor_sync(cuda::kAllLanes, sum, 2);
    inverse[r] = 1.0f / sum;
  }
  cuda::wgmma_wait<0>();
  cuda::wgmma_settled(out);

  // Through the place of this warp's own queries, which no product reads any more once all four warps are here.
  cuda::named_barrier_sync(1 + consumer, kWarpgroup);
  const auto place = [&](int row, int chunk) {  // 16-byte chunk of one of the warp's 16 rows, swizzled as the panels are, free of bank conflicts
    return q + std::uint32_t(chunk / 8 * kQPanelBytes + (warp * 16 + row) * kRowBytes + ((chunk % 8) ^ (row % 8)) * 16);
  };
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      const float low = out[4 * n + 2 * r] * inverse[r], high = out[4 * n + 2 * r + 1] * inverse[r];
      cuda::store_shared_4b(place(lane / 4 + 8 * r, n) + lane % 4 * 4,
                            Type == cuda::RowType::bf16 ? cuda::pack_bf16x2(low, high) : cuda::pack_f16x2(low, high));
    }
  }
  __syncwarp();
#pragma unroll 4
  for (int row = 0; row < 16; ++row) {
    const int m = work.first_query + consumer * kRows + warp * 16 + row;
    if (m >= p.queries) break;
    *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(p.y) + m * p.y_stride + work.head * kHeadDim + lane * 8) = cuda::load_shared_16b(place(row, lane));
  }
}

template <cuda::RowType Type>
__global__ void __launch_bounds__(kThreads, 1) attention_sm90_kernel(const __grid_constant__ Params p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) std::uint8_t memory[];
  const std::uint32_t smem = cuda::shared_address(memory);
  const Work work(p);
  if (threadIdx.x == 0) {
    cuda::prefetch_tensor_map(&p.q);
    cuda::prefetch_tensor_map(&p.k);
    cuda::prefetch_tensor_map(&p.v);
    cuda::mbarrier_init(smem + kFullQ, 1);
    for (int stage = 0; stage < kStages; ++stage) {
      cuda::mbarrier_init(smem + kFullK + 8 * stage, 1);
      cuda::mbarrier_init(smem + kFullV + 8 * stage, 1);
      cuda::mbarrier_init(smem + kEmptyK + 8 * stage, work.consumers * kWarps);
      cuda::mbarrier_init(smem + kEmptyV + 8 * stage, work.consumers * kWarps);
    }
    cuda::fence_mbarrier_init();
  }
  __syncthreads();
  cuda::wait_for_predecessor();
  cuda::let_successor_begin();
  if (threadIdx.x < kWarpgroup) {
    cuda::setmaxnreg_dec<kProducerRegisters>();
    if (threadIdx.x == 0) produce(p, smem, work);
  } else {
    cuda::setmaxnreg_inc<kConsumerRegisters>();
    consume<Type>(p, smem, work);
  }
#endif
}

}  // namespace octavo::attention_sm90
