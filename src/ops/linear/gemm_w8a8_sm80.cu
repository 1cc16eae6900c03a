// The large mma.sync tiles, for sm_80, 86, 89, 120 and, as PTX, whatever comes. Why these: docs/kernels_static.md and bench/results.
#include "ops/linear/catalog.h"
#include "ops/linear/gemm_mma_kernels.h"

namespace octavo {
namespace {

using device::MmaTile;
using gemm::mma_kernel;

constexpr std::string_view kFamily = "mma_sm80";
constexpr ArchRange kArch{.min_sm = 80};

//                  M    N    K   warps    stages  CTAs/SM
using L0 = MmaTile<128, 256, 64, 2, 4, 1, 4, 1>;  // the default: lowest demand on L2 that fits 99 KiB and 255 registers
using L1 = MmaTile<256, 128, 64, 4, 2, 1, 4, 1>;  // the same upright, for narrow N
using M0 = MmaTile<128, 128, 64, 2, 2, 1, 3, 2>;  // two CTAs per SM: one multiplies while the other stores
using S0 = MmaTile<64, 128, 64, 2, 2, 1, 4, 2>;   // M up to about a thousand

// clang-format off
constexpr GemmKernel kKernels[] = {
    mma_kernel<L0>("sm80_128x256x64_s4", kFamily, kArch),
    mma_kernel<L1>("sm80_256x128x64_s4", kFamily, kArch),
    mma_kernel<M0>("sm80_128x128x64_s3", kFamily, kArch),
    mma_kernel<S0>("sm80_64x128x64_s4", kFamily, kArch),
};
// clang-format on

}  // namespace

std::span<const GemmKernel> gemm_w8a8_sm80() { return kKernels; }

}  // namespace octavo
