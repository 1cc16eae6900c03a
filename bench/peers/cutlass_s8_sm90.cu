// CUTLASS 3 as a peer: INT8 wgmma with the row × column scale in an epilogue visitor tree, bf16 out.
//   y[m,n] = bf16( (float(acc) · x_scale[m]) · w_scale[n] )
// Compiled six times, with OCTAVO_PEER_CONFIG = 0 … 5 (65 CPU-seconds each). Bench only: CUTLASS's headers come from the PyPI wheel
// nvidia-cutlass and are never committed. Build with -DNDEBUG, or wgmma is serialised.
#include "gemm_peer.h"

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

namespace octavo::bench {
namespace {

using cute::_0;
using cute::_1;
using cute::_128;
using cute::_2;
using cute::_256;
using cute::_64;
using cute::Shape;
using cute::Stride;

using PingPong = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
using PingPongStore = cutlass::epilogue::TmaWarpSpecialized;
using Cooperative = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
using CooperativeStore = cutlass::epilogue::TmaWarpSpecializedCooperative;

template <class Tile, class Cluster, class MainSchedule, class StoreSchedule>
struct Config {
  static constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;
  using Row = cutlass::layout::RowMajor;
  using Column = cutlass::layout::ColumnMajor;

  using Acc = cutlass::epilogue::fusion::Sm90AccFetch;
  using XScale = cutlass::epilogue::fusion::Sm90ColBroadcast<0, Tile, float, float, Stride<_1, _0, _0>>;
  using WScale = cutlass::epilogue::fusion::Sm90RowBroadcast<0, Tile, float, float, Stride<_0, _1, _0>>;
  template <class Out>
  using Multiply = cutlass::epilogue::fusion::Sm90Compute<cutlass::multiplies, Out, float, kRound>;
  using ScaledX = cutlass::epilogue::fusion::Sm90EVT<Multiply<float>, XScale, Acc>;
  using Scaled = cutlass::epilogue::fusion::Sm90EVT<Multiply<cutlass::bfloat16_t>, WScale, ScaledX>;

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
                                                                             cutlass::epilogue::collective::EpilogueTileAuto, std::int32_t, float, void, Row, 8,
                                                                             cutlass::bfloat16_t, Row, 8, StoreSchedule, Scaled>::CollectiveOp;
  using Main = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, std::int8_t, Row, 16, std::int8_t, Column, 16, std::int32_t, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>, MainSchedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Main, Epilogue>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  static bool run(const PeerGemm& p) {
    const auto x_stride = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {p.m, p.k, 1});
    const auto w_stride = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {p.n, p.k, 1});
    const auto y_stride = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {p.m, p.n, 1});
    typename Gemm::Arguments args{cutlass::gemm::GemmUniversalMode::kGemm,
                                  {p.m, p.n, p.k, 1},
                                  {p.x, x_stride, p.w, w_stride},
                                  {{}, nullptr, y_stride, static_cast<cutlass::bfloat16_t*>(p.y), y_stride}};
    args.epilogue.thread = {{p.w_scale, 0.0f, {}}, {{p.x_scale, 0.0f, {}}, {}, {}}, {}};
    args.scheduler.max_swizzle_size = p.raster;
    args.hw_info = cutlass::KernelHardwareInfo::make_kernel_hardware_info<Kernel>();
    if (Gemm::can_implement(args) != cutlass::Status::kSuccess || Gemm::get_workspace_size(args) > p.workspace_bytes) return false;
    Gemm gemm;
    return gemm.initialize(args, p.workspace, p.stream) == cutlass::Status::kSuccess && gemm.run(p.stream) == cutlass::Status::kSuccess;
  }
};

}  // namespace

#if OCTAVO_PEER_CONFIG == 0
bool cutlass_s8_sm90_0(const PeerGemm& p) { return Config<Shape<_128, _128, _128>, Shape<_2, _1, _1>, PingPong, PingPongStore>::run(p); }
#elif OCTAVO_PEER_CONFIG == 1
bool cutlass_s8_sm90_1(const PeerGemm& p) { return Config<Shape<_64, _256, _128>, Shape<_2, _1, _1>, PingPong, PingPongStore>::run(p); }
#elif OCTAVO_PEER_CONFIG == 2
bool cutlass_s8_sm90_2(const PeerGemm& p) { return Config<Shape<_128, _256, _128>, Shape<_2, _1, _1>, Cooperative, CooperativeStore>::run(p); }
#elif OCTAVO_PEER_CONFIG == 3
bool cutlass_s8_sm90_3(const PeerGemm& p) { return Config<Shape<_256, _128, _128>, Shape<_2, _1, _1>, Cooperative, CooperativeStore>::run(p); }
#elif OCTAVO_PEER_CONFIG == 4
bool cutlass_s8_sm90_4(const PeerGemm& p) { return Config<Shape<_128, _256, _128>, Shape<_1, _2, _1>, Cooperative, CooperativeStore>::run(p); }
#elif OCTAVO_PEER_CONFIG == 5
bool cutlass_s8_sm90_5(const PeerGemm& p) { return Config<Shape<_256, _128, _128>, Shape<_1, _2, _1>, Cooperative, CooperativeStore>::run(p); }
#else
#error "set OCTAVO_PEER_CONFIG to 0 … 5"
#endif

}  // namespace octavo::bench
