// Turing: products in 8×8×16 pieces, slices by way of registers, 64 KiB of shared memory. Runs on GPUs up to Hopper too, where the tests run it.
#include "ops/linear/catalog.h"
#include "ops/linear/gemm_mma_kernels.h"

namespace octavo {
namespace {

using device::Copies;
using device::Fragments;
using device::MmaTile;
using device::Schedule;
using gemm::mma_kernel;

constexpr std::string_view kFamily = "mma_sm75";
constexpr ArchRange kArch{.min_sm = 75, .max_sm = 90};  // gemm_mma.cuh leaves them out on later ones

using T0 = MmaTile<128, 256, 64, 2, 4, 1, 2, 1, Fragments::streamed, Schedule<>, Copies::registers>;
using T1 = MmaTile<128, 128, 64, 2, 2, 1, 2, 1, Fragments::doubled, Schedule<>, Copies::registers>;
using T2 = MmaTile<16, 64, 128, 1, 2, 2, 3, 1, Fragments::streamed, Schedule<>, Copies::registers>;

constexpr GemmKernel kKernels[] = {
    mma_kernel<T0>("sm75_128x256x64_s2", kFamily, kArch),
    mma_kernel<T1>("sm75_128x128x64_s2", kFamily, kArch),
    mma_kernel<T2>("sm75_16x64x128_s3_k2", kFamily, kArch),
};

}  // namespace

std::span<const GemmKernel> gemm_w8a8_sm75() { return kKernels; }

}  // namespace octavo
