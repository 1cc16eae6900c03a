// From an AttentionLaunch to a launch of the Hopper kernel: which tensors fit, tensor maps.
#include "ops/attention/attention_sm90.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <string>

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "octavo/error.h"
#include "ops/attention/device/attention_sm90.cuh"

namespace octavo {
namespace {

// A map of rows of 16-bit floats that is loaded in boxes of box_rows × 64 columns.
CUtensorMap tensor_map(const cuda::RowsIn& rows, std::int64_t count, std::int64_t columns, int box_rows) {
  // The driver's function is looked up at run time: the program must start without a driver.
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cuda_check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found), "attention: look up tensor maps");
    if (found != cudaDriverEntryPointSuccess) throw Unsupported("attention: this driver has no tensor maps (cuTensorMapEncodeTiled); it must be 12.0 or newer");
    return reinterpret_cast<Encode>(function);
  }();
  CUtensorMap map{};
  const cuuint64_t sizes[2] = {cuuint64_t(columns), cuuint64_t(count)};
  const cuuint64_t strides[1] = {cuuint64_t(count == 1 ? columns : rows.stride) * 2};
  const cuuint32_t box[2] = {64, cuuint32_t(box_rows)};
  const cuuint32_t element_strides[2] = {1, 1};
  const auto type = rows.type == cuda::RowType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const CUresult status = encode(&map, type, 2, rows.data, sizes, strides, box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw DeviceError("attention: tensor map of [" + std::to_string(count) + ", " + std::to_string(columns) + "], row stride " + std::to_string(rows.stride) +
                      ": driver status " + std::to_string(int(status)));
  }
  return map;
}

}  // namespace

bool fits_attention_sm90(const AttentionLaunch& launch, int sm) {
  constexpr std::int64_t kMaxRows = 1 << 30;  // coordinates of a tensor map are 32 bits
  return sm == 90 && !launch.causal && launch.head_dim == attention_sm90::kHeadDim && launch.queries < kMaxRows && launch.keys < kMaxRows &&
         fits_attention_mma(launch, sm);
}

void launch_attention_sm90(const AttentionLaunch& launch, void* stream) {
  using namespace attention_sm90;  // NOLINT
  const std::int64_t q_columns = std::int64_t(launch.heads) * launch.head_dim, kv_columns = std::int64_t(launch.kv_heads) * launch.head_dim;
  Params p{};
  p.q = tensor_map(launch.q, launch.queries, q_columns, kRows);
  p.k = tensor_map(launch.k, launch.keys, kv_columns, kKeys);
  p.v = tensor_map(launch.v, launch.keys, kv_columns, kKeys);
  p.y = launch.y.data;
  p.y_stride = launch.y.stride;
  p.queries = int(launch.queries);
  p.keys = int(launch.keys);
  p.tiles = int((launch.keys + kKeys - 1) / kKeys);
  p.kv_groups = launch.heads / launch.kv_heads;
  p.to_log2 = launch.softmax_scale * 1.4426950408889634f;

  auto* kernel = launch.q.type == cuda::RowType::bf16 ? &attention_sm90_kernel<cuda::RowType::bf16> : &attention_sm90_kernel<cuda::RowType::f16>;
  int device_index = 0, sms = 0;
  cuda_check(cudaGetDevice(&device_index), "attention: current device");
  cuda_check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device_index), "attention: number of SMs");
  p.q_tiles = int((launch.queries + kQueries - 1) / kQueries);
  const int tiles = p.q_tiles * launch.heads, rest = tiles % sms;
  p.whole = 2 * rest <= sms ? tiles - rest : tiles;
  const dim3 grid(unsigned(2 * tiles - p.whole));
  cuda_check(cuda::launch_overlapping(kernel, grid, kThreads, kSharedBytes, stream, p), "attention (sm_90)");
}

}  // namespace octavo
