#include <algorithm>

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/attention/attention_int8_launch.h"
#include "ops/attention/device/attention_codes.cuh"
#include "ops/attention/device/attention_int8.cuh"

namespace octavo {
namespace {

template <class Launch>
void enqueue(void (*kernel)(Launch), dim3 grid, int threads, int shared_bytes, const Launch& launch, void* stream, const char* what) {
  int device_index = 0;
  cuda_check(cudaGetDevice(&device_index), what);
  cuda_check(cuda::allow_shared(reinterpret_cast<const void*>(kernel), device_index, shared_bytes), what);
  Launch arguments = launch;
  void* pointers[] = {&arguments};
  cuda_check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(unsigned(threads)), pointers, std::size_t(shared_bytes),
                              static_cast<cudaStream_t>(stream)),
             what);
}

unsigned pieces_of(std::int64_t count, std::int64_t piece) { return unsigned((count + piece - 1) / piece); }

template <int HeadDim>
void launch_product(const AttentionInt8Launch& launch, void* stream) {
  using Tile = device::Int8AttentionTile<HeadDim>;
  enqueue(&device::attention_int8_kernel<HeadDim>, dim3(pieces_of(launch.queries, Tile::kQueries), unsigned(launch.heads)), Tile::kThreads, Tile::kSharedBytes,
          launch, stream, "attention_int8");
}

}  // namespace

void launch_attention_codes(const AttentionCodesLaunch& launch, void* stream) {
  const int columns = launch.kv_heads * launch.head_dim;
  const std::int64_t items = std::max(launch.queries * launch.heads, launch.keys * launch.kv_heads);
  cuda::with_type(launch.q.type, [&](auto type) {
    enqueue(&device::run_sums_kernel<type()>, dim3(pieces_of(launch.keys, kMeanRun), pieces_of(columns, 2 * device::kCodesThreads)), device::kCodesThreads, 0,
            launch, stream, "attention_int8: sums of keys");
    enqueue(&device::finish_runs_kernel, dim3(unsigned(launch.kv_heads)), launch.head_dim, 0, launch, stream, "attention_int8: mean of keys");
    auto* kernel = &device::codes_kernel<type(), 64>;
    if (launch.head_dim == 128) kernel = &device::codes_kernel<type(), 128>;
    if (launch.head_dim == 256) kernel = &device::codes_kernel<type(), 256>;
    enqueue(kernel, dim3(pieces_of(items * (launch.head_dim / 8), device::kCodesThreads), 3), device::kCodesThreads, 0, launch, stream,
            "attention_int8: codes");
  });
}

void launch_attention_int8(const AttentionInt8Launch& launch, void* stream) {
  if (launch.head_dim == 64) return launch_product<64>(launch, stream);
  if (launch.head_dim == 128) return launch_product<128>(launch, stream);
  launch_product<256>(launch, stream);
}

}  // namespace octavo
