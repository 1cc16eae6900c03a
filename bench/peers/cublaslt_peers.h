// cuBLASLt as a peer, loaded at run time: what it gives for the same layer in bf16, in INT8 (int32 out, then our dequantisation) and in FP8.
//   y[m, n] bf16 = x[m, k] · w[n, k]ᵀ, scaled per row of x and of w where the format has scales.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace octavo::bench {

enum class LtKind { bf16, int8_dequant, fp8_row, fp8_tensor };  // both FP8 kinds with fast accumulation

struct LtOperands {
  int m = 0, n = 0, k = 0;
  const void* x = nullptr;         // [m, k] bf16, s8 or e4m3
  const void* w = nullptr;         // [n, k] the same
  const float* x_scale = nullptr;  // [m]; fp8_tensor uses the first
  const float* w_scale = nullptr;  // [n]
  void* y = nullptr;               // bf16 [m, n]
  std::int32_t* acc = nullptr;     // [m, n], int8_dequant only
};

class CublasLt {
 public:
  // Empty if libcublasLt cannot be loaded; `why` then says so.
  static std::unique_ptr<CublasLt> load(std::string& why);
  ~CublasLt();

  // A function that enqueues the product on `stream`, with the fastest of up to 32 heuristic algorithms (each timed here on `o`, 5 runs).
  // Empty if the library does not support the combination; `why` then holds its status.
  std::function<void(const LtOperands&)> prepare(LtKind kind, const LtOperands& o, void* workspace, std::size_t workspace_bytes, cudaStream_t stream,
                                                 std::string& why);

 private:
  struct Api;
  struct Plan;
  explicit CublasLt(std::unique_ptr<Api> api);
  std::unique_ptr<Api> api_;
};

// The codes of an INT8 matrix as bf16, or as e4m3 stretched so that 127 becomes 448: the same Gaussian data in the peer's format.
void codes_to_bf16(const std::int8_t* codes, void* out, std::int64_t count, cudaStream_t stream);
void codes_to_e4m3(const std::int8_t* codes, void* out, std::int64_t count, cudaStream_t stream);

}  // namespace octavo::bench
