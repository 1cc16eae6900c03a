// Rows on their way: each warp fetches its part of the next rows into slots of its own in shared memory, while it works on the present one in registers.
// No barrier beyond the warp, no registers held by loads under way, and enough bytes of them for the memory never to wait for a reduction.
#pragma once

#include "cuda/cp_async.cuh"
#include "cuda/row/quantize.cuh"
#include "cuda/row/walk.h"
#include "cuda/shared.cuh"

namespace octavo::cuda {

static_assert(sizeof(ReduceScratch) == kScratchBytes);

// This thread's view of its CTA's shared memory (walk.h). RingBytes: of a value, all operands together.
struct WalkShared {
  float* vectors;          // parameters, all teams'
  ReduceScratch* scratch;  // its team's
  char* slots;             // its warp's
  float* words;            // its warp's exchange buffer; not there unless rotating
};

template <int Segments, int RingBytes>
__device__ __forceinline__ WalkShared walk_shared(float4* dynamic, int vectors, int depth) {
  const int team_warps = int(blockDim.x) / kWarpLanes;
  const int warps = team_warps * int(blockDim.y);
  const int warp = team_warps * int(threadIdx.y) + int(threadIdx.x) / kWarpLanes;
  const int slot_bytes = depth * Segments * kSegment * RingBytes;
  float* parameters = reinterpret_cast<float*>(dynamic);
  char* scratch = reinterpret_cast<char*>(parameters + vectors * vector_words(int(blockDim.x), Segments));
  char* slots = scratch + int(blockDim.y) * kScratchBytes;
  float* words = reinterpret_cast<float*>(slots + warps * slot_bytes);
  return {parameters, reinterpret_cast<ReduceScratch*>(scratch) + threadIdx.y, slots + warp * slot_bytes, words + warp * kExchangeWords};
}

// Rows of one type, `Operands` of them fetched together.
template <RowType Type, int Segments, int Operands>
class RowRing {
 public:
  static constexpr int kValueBytes = Type == RowType::f32 ? 4 : 2;
  static constexpr int kBytes = Operands * kValueBytes;

  __device__ RowRing(char* slots, int depth, int columns) : slots_(shared_address(slots)), depth_(depth), columns_(columns), thread_(threadIdx.x) {}

  // Into the present slot, which every lane has read; zeros beyond the last column. Does not wait.
  __device__ __forceinline__ void fetch(int operand, const RowsIn& rows, std::int64_t row) {
    const char* start = static_cast<const char*>(rows.data) + row * rows.stride * kValueBytes;
    const int lane = int(thread_) % kWarpLanes;
    const int first = int(thread_) / kWarpLanes * Segments * kSegment;
    const std::uint32_t to = place(operand) + 16 * swizzle_chunk(lane);
#pragma unroll
    for (int i = 0; i < Segments * kSegmentChunks / kWarpLanes; ++i) {  // neighbouring lanes, neighbouring chunks: whole sectors
      const int k = first + (i * kWarpLanes + lane) * kChunkValues;
      const bool valid = k < columns_;
      const char* from = start + (valid ? k * kValueBytes : 0);
#if __CUDA_ARCH__ >= 800
      cp_async_16b_or_zero(to + i * kWarpLanes * 16, from, valid);
#else
      store_shared_16b(to + i * kWarpLanes * 16, valid ? *reinterpret_cast<const uint4*>(from) : uint4{});
#endif
    }
  }

  // Closes what was fetched into the present slot, if anything, and goes on to the next.
  __device__ __forceinline__ void advance() {
#if __CUDA_ARCH__ >= 800
    cp_async_commit();
#endif
    slot_ = slot_ + 1 == depth_ ? 0 : slot_ + 1;
  }

  // The present slot's row has arrived, for all lanes.
  __device__ __forceinline__ void wait() {
#if __CUDA_ARCH__ >= 800
    if (depth_ == 1) {
      cp_async_wait<0>();
    } else if (depth_ == 2) {
      cp_async_wait<1>();
    } else {
      cp_async_wait<kMaxDepth - 1>();
    }
#endif
    __syncwarp();
    thread_ = recomputed(threadIdx.x);  // addresses within the slot are worked out for every row: kept from row to row they would spill
  }

  template <LaneOrder Order>
  __device__ __forceinline__ void read8(int operand, int s, int half, float* v) const {
    const int c = chunk_of<Order>(int(thread_) % kWarpLanes, half) / kChunkValues;
    const std::uint32_t from = place(operand) + s * kSegmentChunks * 16;
    Raw8<Type> raw;
    raw.words = load_shared_16b(from + 16 * swizzle_chunk(c));
    if constexpr (Type == RowType::f32) raw.more = load_shared_16b(from + 16 * swizzle_chunk(c + 1));
    unpack8<Type>(raw, v);
  }

  template <LaneOrder Order>
  __device__ __forceinline__ void read(int operand, float (&v)[Segments][kLaneValues]) const {
#pragma unroll
    for (int s = 0; s < Segments; ++s) {
      read8<Order>(operand, s, 0, v[s]);
      read8<Order>(operand, s, 1, v[s] + 8);
    }
  }

 private:
  static constexpr int kChunkValues = 16 / kValueBytes;
  static constexpr int kSegmentChunks = kSegment / kChunkValues;
  static constexpr int kOperandBytes = Segments * kSegment * kValueBytes;

  __device__ __forceinline__ std::uint32_t place(int operand) const { return slots_ + std::uint32_t((slot_ * Operands + operand) * kOperandBytes); }

  std::uint32_t slots_;
  int depth_;
  int columns_;
  std::uint32_t thread_;
  int slot_ = 0;
};

// The rows of this team: first, first + step, … A step covers every team of every CTA, so that the rows left over go to different SMs.
// Far below 2^31 above the last row, so 32 bits without a sign hold every sum.
__device__ __forceinline__ std::uint32_t first_row() { return blockIdx.x + gridDim.x * threadIdx.y; }
__device__ __forceinline__ std::uint32_t row_step() { return gridDim.x * blockDim.y; }

}  // namespace octavo::cuda
