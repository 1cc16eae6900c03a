#include "gpu/linear_reference.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/cuda_check.h"

namespace octavo::testing {
namespace {

constexpr int kThreads = 256;
constexpr std::uint8_t kPoison = 0xa5;

__device__ std::uint64_t mix(std::uint64_t z) {  // splitmix64
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__device__ float unit(std::uint64_t seed, std::int64_t i) { return float(mix(seed + std::uint64_t(i)) >> 40) * 0x1p-24f; }

template <class Body>
__global__ void for_each(std::int64_t count, Body body) {
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += std::int64_t(gridDim.x) * kThreads) body(i);
}

template <class Body>
void launch(std::int64_t count, void* stream, Body body) {
  if (count == 0) return;
  const std::int64_t blocks = (count + kThreads - 1) / kThreads;
  for_each<<<unsigned(blocks < 4096 ? blocks : 4096), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(count, body);
  cuda_check(cudaGetLastError(), "test kernel");
}

constexpr int kSide = 32;

__global__ void multiply(const std::int8_t* x, std::int64_t x_stride, const std::int8_t* w, std::int64_t w_stride, std::int32_t* acc, std::int64_t m,
                         std::int64_t n, std::int64_t k) {
  __shared__ std::int8_t x_tile[kSide][kSide + 1];
  __shared__ std::int8_t w_tile[kSide][kSide + 1];
  const int column = int(threadIdx.x);
  const int row = int(threadIdx.y);
  const std::int64_t m0 = std::int64_t(blockIdx.y) * kSide;
  const std::int64_t n0 = std::int64_t(blockIdx.x) * kSide;
  std::int32_t sum = 0;
  for (std::int64_t k0 = 0; k0 < k; k0 += kSide) {
    x_tile[row][column] = m0 + row < m && k0 + column < k ? x[(m0 + row) * x_stride + k0 + column] : std::int8_t(0);
    w_tile[row][column] = n0 + row < n && k0 + column < k ? w[(n0 + row) * w_stride + k0 + column] : std::int8_t(0);
    __syncthreads();
    for (int i = 0; i < kSide; ++i) sum += std::int32_t(x_tile[row][i]) * std::int32_t(w_tile[column][i]);
    __syncthreads();
  }
  if (m0 + row < m && n0 + column < n) acc[(m0 + row) * n + n0 + column] = sum;
}

__device__ float load_float(const void* from, DType dtype, std::int64_t i) {
  if (dtype == DType::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
  if (dtype == DType::f16) return __half2float(static_cast<const __half*>(from)[i]);
  return static_cast<const float*>(from)[i];
}

// A stored number as an integer that counts in steps of one ulp.
__device__ std::int64_t ordered(std::int64_t bits, std::int64_t sign) { return (bits & sign) != 0 ? -(bits & (sign - 1)) : bits; }

struct Judge {
  GemmProblem problem;
  int g;
  const std::int32_t* acc;
  std::int64_t acc_stride;
  int silu_ulps;
  unsigned long long* wrong;

  __device__ float value(std::int64_t m, std::int64_t n) const {
    const GemmOperands& op = problem.group[g];
    const float scaled = __fmul_rn(__fmul_rn(float(acc[m * acc_stride + n]), op.x_scale[m]), op.w_scale[n]);
    return op.bias == nullptr ? scaled : __fadd_rn(scaled, op.bias[n]);
  }
  static __device__ float silu(float v) { return float(double(v) / (1.0 + exp(-double(v)))); }

  __device__ void operator()(std::int64_t i) const {
    const GemmOperands& op = problem.group[g];
    const bool halves = problem.epilogue == GemmEpilogue::silu_mul;
    const std::int64_t columns = halves ? problem.n / 2 : problem.n;
    const std::int64_t m = i / op.y_stride;
    const std::int64_t n = i - m * op.y_stride;
    const int bytes = problem.out == DType::bf16 || problem.out == DType::f16 ? 2 : 4;
    if (m >= op.m || n >= columns) {  // nobody may have written here
      for (int b = 0; b < bytes; ++b) {
        if (static_cast<const std::uint8_t*>(op.y)[i * bytes + b] != kPoison) atomicAdd(wrong, 1ull);
      }
      return;
    }
    if (problem.out == DType::s32) {
      if (static_cast<const std::int32_t*>(op.y)[i] != acc[m * acc_stride + n]) atomicAdd(wrong, 1ull);
      return;
    }
    int slack = 0;
    float v = 0;
    if (halves) {
      v = __fmul_rn(silu(value(m, 2 * n)), value(m, 2 * n + 1));
      slack = silu_ulps;
    } else {
      v = value(m, n);
      if (problem.epilogue == GemmEpilogue::silu) {
        v = silu(v);
        slack = silu_ulps;
      }
      if (problem.epilogue == GemmEpilogue::gated_residual) {
        if (op.mod_gate != nullptr) v = __fmul_rn(v, op.mod_gate[n]);
        if (op.residual != nullptr) v = __fadd_rn(load_float(op.residual, problem.out, m * op.residual_stride + n), v);
      }
    }
    const float stored = load_float(op.y, problem.out, i);
    if (isnan(v) || isnan(stored)) {
      if (!(isnan(v) && isnan(stored))) atomicAdd(wrong, 1ull);
      return;
    }
    std::int64_t expected_bits = 0;
    std::int64_t stored_bits = 0;
    if (problem.out == DType::f32) {
      expected_bits = __float_as_uint(v);
      stored_bits = __float_as_uint(stored);
    } else {
      expected_bits = problem.out == DType::bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(v)) : __half_as_ushort(__float2half_rn(v));
      stored_bits = static_cast<const std::uint16_t*>(op.y)[i];
    }
    if (slack == 0) {
      if (expected_bits != stored_bits) atomicAdd(wrong, 1ull);
      return;
    }
    const std::int64_t sign = problem.out == DType::f32 ? 0x80000000ll : 0x8000ll;
    const std::int64_t difference = ordered(expected_bits, sign) - ordered(stored_bits, sign);
    if ((difference < 0 ? -difference : difference) > slack) atomicAdd(wrong, 1ull);
  }
};

}  // namespace

void fill_codes(std::int8_t* to, std::int64_t count, std::uint64_t seed, void* stream) {
  launch(count, stream, [=] __device__(std::int64_t i) { to[i] = std::int8_t(int(mix(seed + std::uint64_t(i)) % 255) - 127); });
}

void fill_floats(float* to, std::int64_t count, float low, float high, std::uint64_t seed, void* stream) {
  launch(count, stream, [=] __device__(std::int64_t i) { to[i] = low + (high - low) * unit(seed, i); });
}

void fill_halves(std::uint16_t* to, std::int64_t count, DType dtype, std::uint64_t seed, void* stream) {
  launch(count, stream, [=] __device__(std::int64_t i) {
    const float v = 4 * unit(seed, i) - 2;
    to[i] = dtype == DType::bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(v)) : __half_as_ushort(__float2half_rn(v));
  });
}

void poison(void* to, std::int64_t bytes, void* stream) {
  cuda_check(cudaMemsetAsync(to, kPoison, std::size_t(bytes), static_cast<cudaStream_t>(stream)), "poison");
}

void reference_sums(const std::int8_t* x, std::int64_t x_stride, const std::int8_t* w, std::int64_t w_stride, std::int32_t* acc, std::int64_t m, std::int64_t n,
                    std::int64_t k, void* stream) {
  if (m == 0) return;
  const dim3 grid(unsigned((n + kSide - 1) / kSide), unsigned((m + kSide - 1) / kSide));
  multiply<<<grid, dim3(kSide, kSide), 0, static_cast<cudaStream_t>(stream)>>>(x, x_stride, w, w_stride, acc, m, n, k);
  cuda_check(cudaGetLastError(), "reference sums");
}

std::int64_t count_wrong(const GemmProblem& problem, int g, const std::int32_t* acc, std::int64_t acc_stride, std::int64_t guard_rows, int silu_ulps,
                         void* stream) {
  static unsigned long long* counter = [] {  // one per process, never freed
    void* memory = nullptr;
    cuda_check(cudaMalloc(&memory, sizeof(unsigned long long)), "counter");
    return static_cast<unsigned long long*>(memory);
  }();
  cuda_check(cudaMemsetAsync(counter, 0, sizeof(unsigned long long), static_cast<cudaStream_t>(stream)), "counter");
  launch((problem.group[g].m + guard_rows) * problem.group[g].y_stride, stream, Judge{problem, g, acc, acc_stride, silu_ulps, counter});
  unsigned long long wrong = 0;
  cuda_check(cudaMemcpyAsync(&wrong, counter, sizeof(wrong), cudaMemcpyDeviceToHost, static_cast<cudaStream_t>(stream)), "counter");
  cuda_check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "counter");
  return std::int64_t(wrong);
}

}  // namespace octavo::testing
