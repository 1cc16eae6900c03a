#include "cublaslt_peers.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

namespace octavo::bench {
namespace {

__global__ void to_bf16(const std::int8_t* codes, __nv_bfloat16* out, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count; i += std::int64_t{gridDim.x} * blockDim.x)
    out[i] = __float2bfloat16_rn(codes[i]);
}

__global__ void to_e4m3(const std::int8_t* codes, __nv_fp8_e4m3* out, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count; i += std::int64_t{gridDim.x} * blockDim.x)
    out[i] = __nv_fp8_e4m3(codes[i] * (448.0f / 127.0f));
}

// y = bf16( (float(acc) · x_scale[m]) · w_scale[n] ): 32 bytes read and 16 written per thread; n is a multiple of 8.
__global__ void dequantise(const std::int32_t* acc, const float* x_scale, const float* w_scale, __nv_bfloat16* y, int n) {
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
  if (column >= n) return;
  const std::int64_t at = blockIdx.y * std::int64_t{n} + column;
  const float row_scale = __ldg(x_scale + blockIdx.y);
  const int4 low = __ldcs(reinterpret_cast<const int4*>(acc + at)), high = __ldcs(reinterpret_cast<const int4*>(acc + at) + 1);
  const float4 s0 = __ldg(reinterpret_cast<const float4*>(w_scale + column)), s1 = __ldg(reinterpret_cast<const float4*>(w_scale + column) + 1);
  const __nv_bfloat162 pairs[4] = {
      __floats2bfloat162_rn(low.x * row_scale * s0.x, low.y * row_scale * s0.y), __floats2bfloat162_rn(low.z * row_scale * s0.z, low.w * row_scale * s0.w),
      __floats2bfloat162_rn(high.x * row_scale * s1.x, high.y * row_scale * s1.y), __floats2bfloat162_rn(high.z * row_scale * s1.z, high.w * row_scale * s1.w)};
  *reinterpret_cast<uint4*>(y + at) = *reinterpret_cast<const uint4*>(pairs);
}

}  // namespace

void codes_to_bf16(const std::int8_t* codes, void* out, std::int64_t count, cudaStream_t stream) {
  to_bf16<<<2048, 256, 0, stream>>>(codes, static_cast<__nv_bfloat16*>(out), count);
}
void codes_to_e4m3(const std::int8_t* codes, void* out, std::int64_t count, cudaStream_t stream) {
  to_e4m3<<<2048, 256, 0, stream>>>(codes, static_cast<__nv_fp8_e4m3*>(out), count);
}

struct CublasLt::Api {
  void* library = nullptr;
  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;

  template <class F>
  bool find(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
  }
};

// One product. Column-major in cuBLASLt's words: D [n × m] = op(A = w, transposed) · B = x, so D's columns are our rows.
struct CublasLt::Plan {
  Api* api;
  LtKind kind;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algo{};
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  cudaStream_t stream = nullptr;

  ~Plan() {
    if (d != nullptr) api->layout_destroy(d);
    if (b != nullptr) api->layout_destroy(b);
    if (a != nullptr) api->layout_destroy(a);
    if (desc != nullptr) api->desc_destroy(desc);
  }

  template <class T>
  bool set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return api->desc_set(desc, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  }

  cublasStatus_t run(const LtOperands& o) {
    const float one = 1.0f, zero = 0.0f;
    const std::int32_t int_one = 1, int_zero = 0;
    const bool int8 = kind == LtKind::int8_dequant;
    if (kind == LtKind::fp8_row || kind == LtKind::fp8_tensor) {
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(o.w_scale));
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(o.x_scale));
    }
    void* out = int8 ? static_cast<void*>(o.acc) : o.y;
    const cublasStatus_t status = api->matmul(api->handle, desc, int8 ? static_cast<const void*>(&int_one) : &one, o.w, a, o.x, b,
                                              int8 ? static_cast<const void*>(&int_zero) : &zero, out, d, out, d, &algo, workspace, workspace_bytes, stream);
    if (int8 && status == CUBLAS_STATUS_SUCCESS) {
      const dim3 grid(static_cast<unsigned>((o.n / 8 + 255) / 256), static_cast<unsigned>(o.m));
      dequantise<<<grid, 256, 0, stream>>>(o.acc, o.x_scale, o.w_scale, static_cast<__nv_bfloat16*>(o.y), o.n);
    }
    return status;
  }
};

std::unique_ptr<CublasLt> CublasLt::load(std::string& why) {
  auto api = std::make_unique<Api>();
  for (const char* name : {std::getenv("OCTAVO_CUBLASLT") != nullptr ? std::getenv("OCTAVO_CUBLASLT") : "libcublasLt.so.13", "libcublasLt.so"}) {
    if ((api->library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
  }
  if (api->library == nullptr) {
    why = "libcublasLt.so.13 cannot be loaded; set OCTAVO_CUBLASLT to its path";
    return nullptr;
  }
  const bool found = api->find(api->create, "cublasLtCreate") && api->find(api->destroy, "cublasLtDestroy") &&
                     api->find(api->desc_create, "cublasLtMatmulDescCreate") && api->find(api->desc_set, "cublasLtMatmulDescSetAttribute") &&
                     api->find(api->desc_destroy, "cublasLtMatmulDescDestroy") && api->find(api->layout_create, "cublasLtMatrixLayoutCreate") &&
                     api->find(api->layout_destroy, "cublasLtMatrixLayoutDestroy") && api->find(api->preference_create, "cublasLtMatmulPreferenceCreate") &&
                     api->find(api->preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
                     api->find(api->preference_destroy, "cublasLtMatmulPreferenceDestroy") && api->find(api->heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
                     api->find(api->matmul, "cublasLtMatmul");
  if (!found || api->create(&api->handle) != CUBLAS_STATUS_SUCCESS) {
    why = "libcublasLt is there but does not start";
    return nullptr;
  }
  return std::unique_ptr<CublasLt>(new CublasLt(std::move(api)));
}

CublasLt::CublasLt(std::unique_ptr<Api> api) : api_(std::move(api)) {}
CublasLt::~CublasLt() { api_->destroy(api_->handle); }

std::function<void(const LtOperands&)> CublasLt::prepare(LtKind kind, const LtOperands& o, void* workspace, std::size_t workspace_bytes, cudaStream_t stream,
                                                         std::string& why) {
  auto plan = std::make_shared<Plan>();
  plan->api = api_.get();
  plan->kind = kind;
  plan->workspace = workspace;
  plan->workspace_bytes = workspace_bytes;
  plan->stream = stream;
  const bool int8 = kind == LtKind::int8_dequant;
  const cudaDataType in = kind == LtKind::bf16 ? CUDA_R_16BF : int8 ? CUDA_R_8I : CUDA_R_8F_E4M3;
  bool ok = api_->desc_create(&plan->desc, int8 ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F, int8 ? CUDA_R_32I : CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
  ok = ok && plan->set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T) && plan->set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  if (kind == LtKind::fp8_row || kind == LtKind::fp8_tensor) {
    ok = ok && plan->set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    ok = ok && plan->set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(o.w_scale)) &&
         plan->set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(o.x_scale));
    if (kind == LtKind::fp8_row) {
      ok = ok && plan->set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, std::int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F}) &&
           plan->set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, std::int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
    }
  }
  ok = ok && api_->layout_create(&plan->a, in, o.k, o.n, o.k) == CUBLAS_STATUS_SUCCESS &&
       api_->layout_create(&plan->b, in, o.k, o.m, o.k) == CUBLAS_STATUS_SUCCESS &&
       api_->layout_create(&plan->d, int8 ? CUDA_R_32I : CUDA_R_16BF, o.n, o.m, o.n) == CUBLAS_STATUS_SUCCESS;
  if (!ok) {
    why = "an attribute is refused";
    return {};
  }
  cublasLtMatmulPreference_t preference = nullptr;
  api_->preference_create(&preference);
  api_->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes, sizeof(workspace_bytes));
  std::array<cublasLtMatmulHeuristicResult_t, 32> results{};
  int count = 0;
  const cublasStatus_t status =
      api_->heuristic(api_->handle, plan->desc, plan->a, plan->b, plan->d, plan->d, preference, static_cast<int>(results.size()), results.data(), &count);
  api_->preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    why = "no algorithm (status " + std::to_string(static_cast<int>(status)) + ")";
    return {};
  }
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  float best = 1e30f;
  cublasLtMatmulAlgo_t best_algo{};
  for (int i = 0; i < count; ++i) {
    plan->algo = results[static_cast<std::size_t>(i)].algo;
    if (plan->run(o) != CUBLAS_STATUS_SUCCESS || cudaStreamSynchronize(stream) != cudaSuccess) continue;
    std::vector<float> times;
    for (int r = 0; r < 5; ++r) {
      cudaEventRecord(begin, stream);
      plan->run(o);
      cudaEventRecord(end, stream);
      cudaEventSynchronize(end);
      float ms = 0;
      cudaEventElapsedTime(&ms, begin, end);
      times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    if (times[2] < best) best = times[2], best_algo = plan->algo;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (best == 1e30f) {
    why = "every algorithm fails";
    return {};
  }
  plan->algo = best_algo;
  return [plan](const LtOperands& operands) { plan->run(operands); };
}

}  // namespace octavo::bench
