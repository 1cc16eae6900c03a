#include "ops/linear/linear_cublaslt.h"

#include <library_types.h>

#include <map>
#include <mutex>
#include <tuple>

#include "base/log.h"
#include "ops/linear/cublaslt_library.h"
#include "ops/row_launch.h"

namespace octavo {
namespace {

namespace lt = cublaslt;
constexpr std::size_t kWorkspaceBytes = 32u << 20;  // what the library's documentation recommends for Hopper
constexpr std::int64_t kThinOutputs = 128;          // a LoRA's ranks; no layer of the full model is as thin

// The library's handle and, for every product asked for so far, its descriptors and algorithm. One per process: making them costs a millisecond.
class Products {
 public:
  struct Product {
    lt::Object desc = nullptr, a = nullptr, b = nullptr, d = nullptr;
    lt::Algorithm algorithm{};
    bool exists = false;
  };

  Products() {
    const char* setting = std::getenv("OCTAVO_CUBLASLT");
    if (setting != nullptr && std::string(setting) == "off") {
      missing_ = "switched off by OCTAVO_CUBLASLT=off";
      return;
    }
    missing_ = library_.load();
  }

  const std::string& missing() const { return missing_; }
  const lt::Library& library() const { return library_; }

  lt::Handle handle(int device) {
    const std::lock_guard lock(mutex_);
    lt::Handle& handle = handles_[device];
    if (handle == nullptr && library_.create(&handle) != lt::kSuccess) handle = nullptr;
    return handle;
  }

  // Column-major D [N, M] = Aᵀ B with A = w [K, N], B = x [K, M], which is row-major y [M, N].
  const Product& find(lt::Handle handle, int device, const FloatLinearLaunch& launch) {
    const Key key{device, int(launch.x.type), int(launch.y.type), launch.m, launch.n, launch.k, launch.x.stride, launch.w.stride, launch.y.stride};
    const std::lock_guard lock(mutex_);
    const auto known = products_.find(key);
    if (known != products_.end()) return known->second;
    const auto data_type = [](cuda::RowType type) {
      return int(type == cuda::RowType::f32 ? CUDA_R_32F : type == cuda::RowType::bf16 ? CUDA_R_16BF : CUDA_R_16F);
    };
    Product product;
    library_.desc_create(&product.desc, lt::kCompute32f, CUDA_R_32F);
    library_.desc_set(product.desc, lt::kDescTransA, &lt::kTranspose, sizeof(int));
    library_.layout_create(&product.a, data_type(launch.w.type), std::uint64_t(launch.k), std::uint64_t(launch.n), launch.w.stride);
    library_.layout_create(&product.b, data_type(launch.x.type), std::uint64_t(launch.k), std::uint64_t(launch.m), launch.x.stride);
    library_.layout_create(&product.d, data_type(launch.y.type), std::uint64_t(launch.n), std::uint64_t(launch.m), launch.y.stride);
    lt::Object preference = nullptr;
    library_.preference_create(&preference);
    library_.preference_set(preference, lt::kPreferenceWorkspace, &kWorkspaceBytes, sizeof kWorkspaceBytes);
    // For so few outputs the library splits K: its partial sums then stay float32 instead of y's type. Others keep the algorithm, and the bits, that they had.
    if (launch.n < kThinOutputs) library_.preference_set(preference, lt::kPreferenceReductions, &lt::kReduceInComputeType, sizeof lt::kReduceInComputeType);
    lt::Heuristic found{};
    int count = 0;
    const int status = library_.heuristic(handle, product.desc, product.a, product.b, product.d, product.d, preference, 1, &found, &count);
    library_.preference_destroy(preference);
    product.exists = status == lt::kSuccess && count > 0 && found.state == lt::kSuccess;
    product.algorithm = found.algorithm;
    return products_.emplace(key, product).first->second;
  }

 private:
  using Key = std::tuple<int, int, int, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  lt::Library library_{};
  std::string missing_{};
  std::mutex mutex_{};
  std::map<int, lt::Handle> handles_{};
  std::map<Key, Product> products_{};
};

Products& products() {
  static auto* const shared = new Products();  // never destroyed: the driver may be gone before a static's destructor runs
  return *shared;
}

}  // namespace

const std::string& cublaslt_missing() { return products().missing(); }

bool linear_cublaslt(ExecContext& ctx, const FloatLinearLaunch& launch, Device device) {
  const cuda::RowsIn &y = launch.y, &residual = launch.residual;
  const bool adds_to_y = residual.data != nullptr && residual.data == y.data && residual.stride == y.stride && residual.type == y.type;
  const bool has_epilogue = launch.bias != nullptr || launch.silu || launch.mod_gate != nullptr || (residual.data != nullptr && !adds_to_y);
  const bool has_types =
      launch.x.type == launch.w.type && launch.x.type != cuda::RowType::f32 && (launch.y.type == launch.x.type || launch.y.type == cuda::RowType::f32);
  const bool is_aligned = cuda::is_aligned(launch.x) && cuda::is_aligned(launch.w) && cuda::is_aligned(launch.y);
  if (has_epilogue || !has_types || !is_aligned || ctx.stream == nullptr || !products().missing().empty()) return false;
  const lt::Handle handle = products().handle(device.index);
  if (handle == nullptr) return false;
  const Products::Product& product = products().find(handle, device.index, launch);
  if (!product.exists) return false;
  const ArenaScope scope(*ctx.scratch);
  void* workspace = ctx.scratch->take(kWorkspaceBytes, "cuBLASLt workspace");
  const float beta = adds_to_y ? 1 : 0;
  const int status =
      products().library().matmul(handle, product.desc, &launch.factor, launch.w.data, product.a, launch.x.data, product.b, &beta, launch.y.data, product.d,
                                  launch.y.data, product.d, &product.algorithm, workspace, kWorkspaceBytes, static_cast<cudaStream_t>(ctx.stream->handle()));
  if (status != lt::kSuccess)
    log::warn("dispatch", "cuBLASLt refused a product of M {}, N {}, K {} with status {}; our own kernel runs it", launch.m, launch.n, launch.k, status);
  return status == lt::kSuccess;
}

}  // namespace octavo
