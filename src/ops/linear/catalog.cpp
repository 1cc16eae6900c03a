#include "ops/linear/catalog.h"

namespace octavo {
namespace {

constexpr bool kHasWgmma = true;

std::vector<GemmKernel> make_catalog() {
  std::vector<GemmKernel> all;
  const auto add = [&all](std::span<const GemmKernel> part) { all.insert(all.end(), part.begin(), part.end()); };
  if constexpr (kHasWgmma) add(gemm_w8a8_sm90());
  add(gemm_w8a8_sm80());
  add(gemm_w8a8_sm80_small());
  add(gemm_w8a8_sm75());
  add(gemm_w8a8_generic());
  return all;
}

bool runs_on(const GemmKernel& kernel, const DeviceCaps& caps) {
  return caps.sm >= kernel.arch.min_sm && caps.sm <= kernel.arch.max_sm && kernel.shared_bytes <= caps.shared_per_block_bytes;
}

}  // namespace

const std::vector<GemmKernel>& gemm_catalog() {
  static const std::vector<GemmKernel> catalog = make_catalog();
  return catalog;
}

const GemmKernel* find_gemm_kernel(std::string_view id) {
  for (const GemmKernel& kernel : gemm_catalog()) {
    if (kernel.id == id) return &kernel;
  }
  return nullptr;
}

std::vector<const GemmKernel*> gemm_candidates(const GemmProblem& problem, const DeviceCaps& caps) {
  std::vector<const GemmKernel*> fitting;
  for (const GemmKernel& kernel : gemm_catalog()) {
    if (runs_on(kernel, caps) && kernel.accepts(problem)) fitting.push_back(&kernel);
  }
  return fitting;
}

}  // namespace octavo
