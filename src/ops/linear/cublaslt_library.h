// The part of cublasLt's C interface that is used here, by its documented values. Loaded at run time: neither header nor library need be installed.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <type_traits>

namespace octavo::cublaslt {

using Handle = void*;
using Object = void*;
struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

constexpr int kSuccess = 0;
constexpr int kTranspose = 1;
constexpr int kCompute32f = 68;
constexpr int kCompute32i = 72;
constexpr int kDescTransA = 3;
constexpr int kDescScalePointerA = 17;
constexpr int kDescScalePointerB = 18;
constexpr int kDescFastAccumulate = 25;
constexpr int kDescScaleModeA = 31;
constexpr int kDescScaleModeB = 32;
constexpr int kScaleOuterVector = 3;
constexpr int kPreferenceWorkspace = 1;
constexpr int kPreferenceReductions = 3;
constexpr std::uint32_t kReduceInComputeType = 2;

struct Library {
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*desc_create)(Object*, int compute, int scale_type) = nullptr;
  int (*desc_destroy)(Object) = nullptr;
  int (*desc_set)(Object, int, const void*, std::size_t) = nullptr;
  int (*layout_create)(Object*, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) = nullptr;
  int (*layout_destroy)(Object) = nullptr;
  int (*preference_create)(Object*) = nullptr;
  int (*preference_destroy)(Object) = nullptr;
  int (*preference_set)(Object, int, const void*, std::size_t) = nullptr;
  int (*heuristic)(Handle, Object, Object, Object, Object, Object, Object, int, Heuristic*, int*) = nullptr;
  int (*matmul)(Handle, Object, const void*, const void*, Object, const void*, Object, const void*, const void*, Object, void*, Object, const Algorithm*, void*,
                std::size_t, cudaStream_t) = nullptr;

  // Looks for $OCTAVO_CUBLASLT, then the names of CUDA 13 and 12. Empty on success, else what is missing.
  std::string load() {
    const char* chosen = std::getenv("OCTAVO_CUBLASLT");
    void* library = nullptr;
    for (const char* name : {chosen, "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
      if (library == nullptr && name != nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) return "libcublasLt was not found; set OCTAVO_CUBLASLT to its path";
    std::string missing;
    const auto take = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      if (function == nullptr) missing = fmt::format("libcublasLt has no {}", name);
    };
    take(create, "cublasLtCreate");
    take(destroy, "cublasLtDestroy");
    take(desc_create, "cublasLtMatmulDescCreate");
    take(desc_destroy, "cublasLtMatmulDescDestroy");
    take(desc_set, "cublasLtMatmulDescSetAttribute");
    take(layout_create, "cublasLtMatrixLayoutCreate");
    take(layout_destroy, "cublasLtMatrixLayoutDestroy");
    take(preference_create, "cublasLtMatmulPreferenceCreate");
    take(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    take(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    take(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    take(matmul, "cublasLtMatmul");
    return missing;
  }
};

}  // namespace octavo::cublaslt
