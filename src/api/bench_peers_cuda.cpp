#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <library_types.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "api/bench_peers.h"
#include "octavo/error.h"
#include "ops/linear/cublaslt_library.h"
#include "ops/linear/dequantize.h"

namespace octavo {
namespace {

namespace lt = cublaslt;

constexpr std::size_t kWorkspaceBytes = 64u << 20;
constexpr int kAlgorithms = 32;
constexpr std::size_t kPatternCount = 2u << 20;

// Gaussian numbers as bf16 bits, and as e4m3 codes nearest to them (sigma 30, so that both formats use their range as quantised rows do).
std::vector<std::uint16_t> gaussian_bf16() {
  std::mt19937_64 random(7);
  std::normal_distribution<float> gauss;
  std::vector<std::uint16_t> values(kPatternCount);
  for (auto& value : values) value = to_bf16(gauss(random)).bits;
  return values;
}

std::vector<std::uint8_t> gaussian_e4m3() {
  // Non-negative e4m3 codes 0 … 0x7e ascend with their value.
  std::vector<float> of_code(0x7f);
  for (int code = 0; code < 0x7f; ++code) {
    const int exponent = code >> 3;
    const int fraction = code & 7;
    of_code[std::size_t(code)] = exponent == 0 ? std::ldexp(float(fraction), -9) : std::ldexp(float(8 + fraction), exponent - 10);
  }
  std::mt19937_64 random(8);
  std::normal_distribution<float> gauss(0.0f, 30.0f);
  std::vector<std::uint8_t> codes(kPatternCount);
  for (auto& code : codes) {
    const float value = gauss(random);
    const auto above = std::lower_bound(of_code.begin(), of_code.end() - 1, std::fabs(value));
    const auto below = above == of_code.begin() ? above : above - 1;
    const auto nearest = std::fabs(value) - *below < *above - std::fabs(value) ? below : above;
    code = std::uint8_t((nearest - of_code.begin()) | (value < 0 ? 0x80 : 0));
  }
  return codes;
}

}  // namespace

struct CublasLt::Impl {
  // One product in the library's terms: column-major D [N, M] = op(A)ᵀ B with A = w [K, N], B = x [K, M], which is row-major y [M, N].
  struct Product {
    lt::Object desc = nullptr;
    lt::Object a = nullptr;
    lt::Object b = nullptr;
    lt::Object d = nullptr;
    std::vector<lt::Heuristic> found{};
    lt::Algorithm best{};
  };

  LinearTimer& timer;
  lt::Library library{};
  std::string missing{};
  lt::Handle handle = nullptr;
  std::vector<Product> products{};
  Buffer bf16_operands{};
  Buffer fp8_operands{};
  Buffer outputs{};  // bf16 [M, N] of every peer, set after set
  Buffer sums{};     // int32 [M, N]
  Buffer workspace{};
  Buffer scales{};

  explicit Impl(LinearTimer& t) : timer(t) {
    missing = library.load();
    if (missing.empty() && library.create(&handle) != lt::kSuccess) missing = "cublasLtCreate failed";
    if (!missing.empty()) return;
    workspace = Buffer(kWorkspaceBytes, timer.device(), "cuBLASLt workspace");
  }
  ~Impl() {
    clear();
    if (handle != nullptr) library.destroy(handle);
  }
  void clear() {
    for (Product& product : products) {
      library.desc_destroy(product.desc);
      for (lt::Object layout : {product.a, product.b, product.d}) library.layout_destroy(layout);
    }
    products.clear();
  }

  std::size_t add(const LinearShape& shape, int compute, int scale_type, int in, int out) {
    Product product;
    library.desc_create(&product.desc, compute, scale_type);
    library.desc_set(product.desc, lt::kDescTransA, &lt::kTranspose, sizeof(int));
    library.layout_create(&product.a, in, std::uint64_t(shape.k), std::uint64_t(shape.n), shape.k);
    library.layout_create(&product.b, in, std::uint64_t(shape.k), std::uint64_t(shape.m), shape.k);
    library.layout_create(&product.d, out, std::uint64_t(shape.n), std::uint64_t(shape.m), shape.n);
    products.push_back(std::move(product));
    return products.size() - 1;
  }

  bool find(Product& product) {
    lt::Object preference = nullptr;
    library.preference_create(&preference);
    const std::size_t bytes = kWorkspaceBytes;
    library.preference_set(preference, lt::kPreferenceWorkspace, &bytes, sizeof bytes);
    std::vector<lt::Heuristic> results(kAlgorithms);
    int count = 0;
    const int status = library.heuristic(handle, product.desc, product.a, product.b, product.d, product.d, preference, kAlgorithms, results.data(), &count);
    library.preference_destroy(preference);
    if (status != lt::kSuccess) count = 0;
    results.resize(std::size_t(count));
    std::erase_if(results, [](const lt::Heuristic& result) { return result.state != lt::kSuccess; });
    product.found = std::move(results);
    return !product.found.empty();
  }

  bool run(const Product& product, const lt::Algorithm& algorithm, const void* w, const void* x, void* y, bool is_integer) const {
    const float one = 1.0f;
    const float zero = 0.0f;
    const std::int32_t int_one = 1;
    const std::int32_t int_zero = 0;
    const void* alpha = is_integer ? static_cast<const void*>(&int_one) : &one;
    const void* beta = is_integer ? static_cast<const void*>(&int_zero) : &zero;
    return library.matmul(handle, product.desc, alpha, w, product.a, x, product.b, beta, y, product.d, y, product.d, &algorithm, workspace.data(),
                          kWorkspaceBytes, static_cast<cudaStream_t>(timer.stream().handle())) == lt::kSuccess;
  }

  // Times every algorithm twice and keeps the fastest. False if none runs.
  template <class Enqueue>
  bool choose(Product& product, const Enqueue& enqueue) {
    double fastest = std::numeric_limits<double>::infinity();
    for (lt::Heuristic& candidate : product.found) {
      product.best = candidate.algorithm;
      if (!enqueue(0)) continue;
      timer.stream().synchronize();
      const double seconds = std::min(timer.time(3, [&](std::size_t set) { enqueue(set); }), timer.time(3, [&](std::size_t set) { enqueue(set); }));
      if (seconds < fastest) {
        fastest = seconds;
        std::swap(product.found.front(), candidate);  // what moves back was timed already
      }
    }
    product.best = product.found.front().algorithm;
    return std::isfinite(fastest);
  }
};

CublasLt::CublasLt(LinearTimer& timer) : impl_(std::make_unique<Impl>(timer)) {}
CublasLt::~CublasLt() = default;
const std::string& CublasLt::missing() const { return impl_->missing; }

std::vector<Peer> CublasLt::prepare(const LinearShape& shape) {
  Impl& impl = *impl_;
  std::vector<Peer> peers;
  if (!impl.missing.empty()) return peers;
  impl.timer.stream().synchronize();
  impl.clear();
  impl.products.reserve(4);
  const Device device = impl.timer.device();
  const Stream& stream = impl.timer.stream();
  const std::size_t sets = impl.timer.sets();
  const auto grow = [&](Buffer& buffer, std::size_t bytes, const char* what) {
    if (buffer.size() >= bytes) return;
    buffer = Buffer();
    buffer = Buffer(bytes, device, what);
  };
  const auto m = std::size_t(shape.m);
  const auto n = std::size_t(shape.n);
  const auto k = std::size_t(shape.k);
  constexpr std::size_t kAlign = 256;
  const std::size_t operand_count = ((m + n) * k + kAlign - 1) / kAlign * kAlign;  // of one set
  const std::size_t output_bytes = (m * n * 2 + kAlign - 1) / kAlign * kAlign;
  if (impl.bf16_operands.size() < sets * operand_count * 2) {
    impl.bf16_operands = Buffer();
    const auto pattern = gaussian_bf16();
    impl.bf16_operands = filled_with(std::as_bytes(std::span(pattern)), sets * operand_count * 2, device, stream, "bf16 operands of a peer");
  }
  if (impl.fp8_operands.size() < sets * operand_count) {
    impl.fp8_operands = Buffer();
    const auto pattern = gaussian_e4m3();
    impl.fp8_operands = filled_with(std::as_bytes(std::span(pattern)), sets * operand_count, device, stream, "FP8 operands of a peer");
  }
  grow(impl.outputs, sets * output_bytes, "outputs of a peer");
  grow(impl.sums, m * n * 4, "int32 sums of a peer");
  if (impl.scales.size() < std::max(m, n) * sizeof(float)) {
    impl.scales = Buffer();
    const std::vector<float> ones(std::max<std::size_t>(std::max(m, n), 1024), 0.004f);
    impl.scales = filled_with(std::as_bytes(std::span(ones)), ones.size() * sizeof(float), device, stream, "scales of a peer");
  }

  // Pairs of a name and what enqueues it; absent ones keep the reason.
  const auto offer = [&](const char* name, std::size_t index, auto enqueue) {
    Impl::Product& product = impl.products[index];
    Peer peer{.name = name};
    if (!impl.find(product)) {
      peer.note = "the library offers no algorithm";
    } else if (!impl.choose(product, enqueue)) {
      peer.note = "no algorithm of the library runs";
    } else {
      peer.note = fmt::format("best of {} algorithms", product.found.size());
      peer.enqueue = [enqueue](std::size_t set) { enqueue(set); };
    }
    peers.push_back(std::move(peer));
  };
  const auto output_of = [&impl, output_bytes](std::size_t set) { return static_cast<std::byte*>(impl.outputs.data()) + set * output_bytes; };

  const std::size_t bf16_product = impl.add(shape, lt::kCompute32f, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF);
  offer("cublaslt bf16", bf16_product, [&impl, bf16_product, operand_count, m, k, output_of](std::size_t set) {
    const Impl::Product& product = impl.products[bf16_product];
    const std::byte* x = static_cast<std::byte*>(impl.bf16_operands.data()) + set * operand_count * 2;
    return impl.run(product, product.best, x + m * k * 2, x, output_of(set), false);
  });

  const std::size_t int8_product = impl.add(shape, lt::kCompute32i, CUDA_R_32I, CUDA_R_8I, CUDA_R_32I);
  offer("cublaslt int8 + dequantise", int8_product, [&impl, int8_product, shape, output_of](std::size_t set) {
    const Impl::Product& product = impl.products[int8_product];
    const GemmOperands& operands = impl.timer.problem(set).group[0];
    if (!impl.run(product, product.best, operands.w, operands.x, impl.sums.data(), true)) return false;
    launch_dequantize(static_cast<const std::int32_t*>(impl.sums.data()), operands.x_scale, operands.w_scale, output_of(set), shape.m, shape.n,
                      impl.timer.stream().handle());
    return true;
  });

  for (const bool per_row : {false, true}) {
    const std::size_t fp8_product = impl.add(shape, lt::kCompute32f, CUDA_R_32F, CUDA_R_8F_E4M3, CUDA_R_16BF);
    Impl::Product& product = impl.products[fp8_product];
    const void* scales = impl.scales.data();
    const std::int8_t fast = 1;
    impl.library.desc_set(product.desc, lt::kDescScalePointerA, &scales, sizeof scales);
    impl.library.desc_set(product.desc, lt::kDescScalePointerB, &scales, sizeof scales);
    impl.library.desc_set(product.desc, lt::kDescFastAccumulate, &fast, sizeof fast);
    if (per_row) {
      impl.library.desc_set(product.desc, lt::kDescScaleModeA, &lt::kScaleOuterVector, sizeof(int));
      impl.library.desc_set(product.desc, lt::kDescScaleModeB, &lt::kScaleOuterVector, sizeof(int));
    }
    offer(per_row ? "cublaslt fp8 row-wise fast" : "cublaslt fp8 per-tensor fast", fp8_product,
          [&impl, fp8_product, operand_count, m, k, output_of](std::size_t set) {
            const Impl::Product& own = impl.products[fp8_product];
            const std::byte* x = static_cast<std::byte*>(impl.fp8_operands.data()) + set * operand_count;
            return impl.run(own, own.best, x + m * k, x, output_of(set), false);
          });
  }
  return peers;
}

bool CublasLt::int8_equals(const void* y_bf16, const LinearShape& shape) {
  const std::size_t bytes = std::size_t(std::min<std::int64_t>(shape.m, 256) * shape.n) * 2;
  std::vector<std::byte> ours(bytes);
  std::vector<std::byte> theirs(bytes);
  copy_bytes(ours.data(), Device{}, y_bf16, impl_->timer.device(), bytes, &impl_->timer.stream());
  copy_bytes(theirs.data(), Device{}, impl_->outputs.data(), impl_->timer.device(), bytes, &impl_->timer.stream());
  impl_->timer.stream().synchronize();
  return std::memcmp(ours.data(), theirs.data(), bytes) == 0;
}

}  // namespace octavo
