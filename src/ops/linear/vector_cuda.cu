#include <cuda_runtime.h>

#include "base/checked_math.h"
#include "cuda/convert.cuh"
#include "device/cuda_check.h"
#include "ops/linear/vector_cuda.h"

namespace octavo {
namespace {

constexpr int kThreads = 256;

__global__ void widen(const std::uint16_t* from, bool is_bf16, std::int64_t count, float* to) {
  const std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) to[i] = is_bf16 ? cuda::float_of_bf16(from[i]) : cuda::float_of_f16(from[i]);
}

__global__ void part(const float* from, std::int64_t half, float* to) {
  const std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < 2 * half) to[i % 2 * half + i / 2] = from[i];
}

}  // namespace

const float* as_f32_on_gpu(ExecContext& ctx, const TensorView& vector) {
  if (vector.dtype == DType::f32) return vector.as<const float>();
  const std::int64_t count = vector.shape.elements();
  auto* to = static_cast<float*>(ctx.scratch->take(std::size_t(count) * sizeof(float), "a vector as f32"));
  if (count == 0) return to;
  widen<<<unsigned(ceil_div(count, std::int64_t(kThreads))), kThreads, 0, static_cast<cudaStream_t>(ctx.stream->handle())>>>(
      vector.as<const std::uint16_t>(), vector.dtype == DType::bf16, count, to);
  cuda_check(cudaGetLastError(), "linear: launch of widen");
  return to;
}

float* halves_on_gpu(ExecContext& ctx, const TensorView& vector) {
  const std::int64_t count = vector.shape.elements();
  auto* to = static_cast<float*>(ctx.scratch->take(std::size_t(count) * sizeof(float), "halves of a vector"));
  if (count == 0) return to;
  part<<<unsigned(ceil_div(count, std::int64_t(kThreads))), kThreads, 0, static_cast<cudaStream_t>(ctx.stream->handle())>>>(vector.as<const float>(), count / 2,
                                                                                                                            to);
  cuda_check(cudaGetLastError(), "linear: launch of part");
  return to;
}

}  // namespace octavo
