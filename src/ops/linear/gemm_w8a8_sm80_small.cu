// mma.sync members for few rows of x: time and modulation rows (M = 1 … 48), short prompts. They are bound by reading w once, so what
// counts is bytes on their way: many CTAs, long slices of K, warps that share a tile and split its K.
#include "ops/linear/catalog.h"
#include "ops/linear/gemm_mma_kernels.h"

namespace octavo {
namespace {

using device::Fragments;
using device::MmaTile;
using gemm::mma_kernel;

constexpr std::string_view kFamily = "mma_sm80";
constexpr ArchRange kArch{.min_sm = 80};
constexpr Fragments kStreamed = Fragments::streamed;

//                  M   N    K   warps M N K  stages  CTAs/SM
using S1 = MmaTile<64, 64, 128, 2, 2, 1, 4, 2>;  // two CTAs only where shared memory is larger than on sm_86
using S2 = MmaTile<16, 32, 256, 1, 1, 4, 6, 1, kStreamed>;
using S3 = MmaTile<16, 64, 256, 1, 2, 4, 4, 1, kStreamed>;
using S4 = MmaTile<32, 32, 256, 1, 1, 4, 5, 1, kStreamed>;
using S5 = MmaTile<32, 64, 256, 1, 2, 4, 3, 1, kStreamed>;
using S6 = MmaTile<48, 32, 256, 1, 1, 4, 4, 1, kStreamed>;
using S11 = MmaTile<48, 64, 256, 1, 2, 4, 3, 2, kStreamed>;  // M = 97 … 144 of the 4608-wide layers in one wave of two CTAs per SM
using S7 = MmaTile<64, 32, 256, 1, 1, 4, 4, 1, kStreamed>;
using S8 = MmaTile<64, 64, 256, 1, 2, 4, 3, 1, kStreamed>;
using S9 = MmaTile<128, 32, 128, 2, 1, 4, 4, 1, kStreamed>;
using S10 = MmaTile<128, 64, 128, 2, 2, 2, 4, 1, kStreamed>;

// clang-format off
constexpr GemmKernel kKernels[] = {
    mma_kernel<S1>("sm80_64x64x128_s4", kFamily, kArch),
    mma_kernel<S2>("sm80_16x32x256_s6_k4", kFamily, kArch),
    mma_kernel<S3>("sm80_16x64x256_s4_k4", kFamily, kArch),
    mma_kernel<S4>("sm80_32x32x256_s5_k4", kFamily, kArch),
    mma_kernel<S5>("sm80_32x64x256_s3_k4", kFamily, kArch),
    mma_kernel<S6>("sm80_48x32x256_s4_k4", kFamily, kArch),
    mma_kernel<S11>("sm80_48x64x256_s3_k4", kFamily, kArch),
    mma_kernel<S7>("sm80_64x32x256_s4_k4", kFamily, kArch),
    mma_kernel<S8>("sm80_64x64x256_s3_k4", kFamily, kArch),
    mma_kernel<S9>("sm80_128x32x128_s4_k4", kFamily, kArch),
    mma_kernel<S10>("sm80_128x64x128_s4_k2", kFamily, kArch),
    mma_kernel<S3, 4>("sm80_16x64x256_s4_k4_split4", kFamily, kArch),
    mma_kernel<S1, 4>("sm80_64x64x128_s4_split4", kFamily, kArch),
};
// clang-format on

}  // namespace

std::span<const GemmKernel> gemm_w8a8_sm80_small() { return kKernels; }

}  // namespace octavo
