// CUTLASS 2.x as a peer: INT8 mma.sync m16n8k32, cp.async multistage, row × column scale in an epilogue visitor tree, bf16 out.
//   y[m,n] = bf16( (float(acc) · x_scale[m]) · w_scale[n] )
// The configurations that fit the 99 KiB of sm_86. Compiled once per configuration, with OCTAVO_PEER_CONFIG = 0 … 7, see bench/peers/README.md.
// Nothing holds a small one to one CTA per SM: on a GPU with more shared memory than sm_86 it may run more of them, to its advantage.
// Bench only: CUTLASS's headers come from the PyPI wheel nvidia-cutlass and are never committed.
#include "gemm_peer.h"

// In this order: CUTLASS's visitors do not include what they use.
// clang-format off
#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/default_gemm_universal_with_visitor.h>
#include <cutlass/epilogue/threadblock/fusion/visitors.hpp>
// clang-format on

namespace octavo::bench {
namespace {

using cute::_0;
using cute::_1;
using cute::Stride;
using cutlass::gemm::GemmCoord;
using cutlass::gemm::GemmShape;

// Columns of tiles per raster group: PeerGemm::raster, which CUTLASS wants in the type.
int raster_log = 0;

struct RasterSwizzle : cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<1> {
  static int get_log_tile(GemmCoord) { return raster_log; }
  static dim3 get_grid_shape(GemmCoord tiles) {
    const int group = 1 << raster_log;
    return dim3(tiles.m() * group, (tiles.n() + group - 1) / group, tiles.k());
  }
};

template <class Tile, class Warp, int kStages>
struct Config {
  using Row = cutlass::layout::RowMajor;
  using Column = cutlass::layout::ColumnMajor;
  using Out = cutlass::bfloat16_t;
  static constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;
  static constexpr auto kPlain = cutlass::ComplexTransform::kNone;

  using Threads = cutlass::epilogue::threadblock::OutputTileThreadLayout<Tile, Warp, Out, 8, 1>;
  using Acc = cutlass::epilogue::threadblock::VisitorAccFetch;
  using XScale = cutlass::epilogue::threadblock::VisitorColBroadcast<Threads, float, Stride<_1, _0, _0>>;
  using WScale = cutlass::epilogue::threadblock::VisitorRowBroadcast<Threads, float, Stride<_0, _1, _0>>;
  template <class To>
  using Multiply = cutlass::epilogue::threadblock::VisitorCompute<cutlass::multiplies, To, float, kRound>;
  using ScaledX = cutlass::epilogue::threadblock::Sm80EVT<Multiply<float>, XScale, Acc>;
  using Scaled = cutlass::epilogue::threadblock::Sm80EVT<Multiply<Out>, WScale, ScaledX>;
  using Store = cutlass::epilogue::threadblock::VisitorAuxStore<Threads, Out, kRound, Stride<std::int64_t, _1, _0>>;
  using Epilogue = cutlass::epilogue::threadblock::Sm80EVT<Store, Scaled>;

  using Kernel =
      typename cutlass::gemm::kernel::DefaultGemmWithVisitor<std::int8_t, Row, kPlain, 16, std::int8_t, Column, kPlain, 16, Out, Row, 8, std::int32_t, float,
                                                             cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, Tile, Warp, GemmShape<16, 8, 32>, Epilogue,
                                                             RasterSwizzle, kStages, cutlass::arch::OpMultiplyAddSaturate, 1>::GemmKernel;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
  static_assert(sizeof(typename Kernel::SharedStorage) <= 101376, "fits sm_86");

  static bool run(const PeerGemm& p) {
    raster_log = p.raster >= 8 ? 3 : p.raster >= 4 ? 2 : p.raster >= 2 ? 1 : 0;
    const typename ScaledX::Arguments scaled_x{{p.x_scale, 0.0f, {}}, {}, {}};
    const typename Scaled::Arguments scaled{{p.w_scale, 0.0f, {}}, scaled_x, {}};
    const typename Epilogue::Arguments epilogue{scaled, {static_cast<Out*>(p.y), {std::int64_t{p.n}, _1{}, _0{}}}};
    const typename Gemm::Arguments args(cutlass::gemm::GemmUniversalMode::kGemm, {p.m, p.n, p.k}, 1, epilogue, p.x, p.w, nullptr, nullptr, 0, 0, 0, 0, p.k, p.k,
                                        p.n, p.n);
    Gemm gemm;
    return gemm.initialize(args, p.workspace, p.stream) == cutlass::Status::kSuccess && gemm.run(p.stream) == cutlass::Status::kSuccess;
  }
};

}  // namespace

#if OCTAVO_PEER_CONFIG == 0
bool cutlass_s8_sm80_0(const PeerGemm& p) { return Config<GemmShape<128, 256, 64>, GemmShape<64, 64, 64>, 3>::run(p); }
#elif OCTAVO_PEER_CONFIG == 1
bool cutlass_s8_sm80_1(const PeerGemm& p) { return Config<GemmShape<256, 128, 64>, GemmShape<64, 64, 64>, 3>::run(p); }
#elif OCTAVO_PEER_CONFIG == 2
bool cutlass_s8_sm80_2(const PeerGemm& p) { return Config<GemmShape<128, 128, 64>, GemmShape<64, 64, 64>, 4>::run(p); }
#elif OCTAVO_PEER_CONFIG == 3
bool cutlass_s8_sm80_3(const PeerGemm& p) { return Config<GemmShape<128, 256, 64>, GemmShape<64, 64, 64>, 4>::run(p); }
#elif OCTAVO_PEER_CONFIG == 4
bool cutlass_s8_sm80_4(const PeerGemm& p) { return Config<GemmShape<128, 128, 64>, GemmShape<64, 64, 64>, 5>::run(p); }
#elif OCTAVO_PEER_CONFIG == 5
bool cutlass_s8_sm80_5(const PeerGemm& p) { return Config<GemmShape<128, 128, 128>, GemmShape<64, 64, 128>, 3>::run(p); }
#elif OCTAVO_PEER_CONFIG == 6
bool cutlass_s8_sm80_6(const PeerGemm& p) { return Config<GemmShape<128, 64, 64>, GemmShape<64, 32, 64>, 4>::run(p); }
#elif OCTAVO_PEER_CONFIG == 7
bool cutlass_s8_sm80_7(const PeerGemm& p) { return Config<GemmShape<64, 128, 64>, GemmShape<32, 64, 64>, 4>::run(p); }
#else
#error "set OCTAVO_PEER_CONFIG to 0 … 7"
#endif

}  // namespace octavo::bench
