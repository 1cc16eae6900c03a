#include "ops/conv2d/conv2d.h"

#include "base/build.h"
#include "ops/checks.h"
#include "ops/conv2d/conv2d_backend.h"
#include "ops/op_work.h"

namespace octavo {
namespace {

void check_map(const std::string& op, std::string_view what, const TensorView& map, Device device) {
  if (map.shape.rank() != 3 || !is_float(map.dtype) || !map.is_dense() || map.device != device) {
    throw InvalidArgument(fmt::format("{}: {} is {}; a dense f32, bf16 or f16 map [H, W, C] on {} is needed", op, what, describe(map), device.name()));
  }
  check_memory(op, what, map);
}

void check_conv2d(const std::string& op, const TensorView& x, const ConvWeights& w, const ConvArgs& args, const std::optional<TensorView>& residual,
                  const TensorView& y) {
  check_map(op, "x", x, x.device);
  check_map(op, "y", y, x.device);
  check_apart(op, "x", x, y);
  const TensorView& weight = w.weight;
  if (weight.shape.rank() != 4 || !is_float(weight.dtype) || !weight.is_dense() || weight.device != x.device || weight.shape[3] != x.shape[2]) {
    throw InvalidArgument(fmt::format("{}: the weight is {}; dense f32, bf16 or f16 [Cout, kh, kw, {}] on {} is needed for x {}", op, describe(weight),
                                      x.shape[2], x.device.name(), x.shape.text()));
  }
  check_memory(op, "weight", weight);
  if (w.bias) check_float_vector(op, "bias", *w.bias, weight.shape[0], x.device);
  if (args.stride < 1 || args.pad_top < 0 || args.pad_left < 0 || args.pad_bottom < 0 || args.pad_right < 0) {
    throw InvalidArgument(fmt::format("{}: stride {} must be at least 1 and no padding negative", op, args.stride));
  }
  const std::int64_t enlarge = args.upsample_nearest_2x ? 2 : 1;
  const std::int64_t space_h = x.shape[0] * enlarge + args.pad_top + args.pad_bottom - weight.shape[1];
  const std::int64_t space_w = x.shape[1] * enlarge + args.pad_left + args.pad_right - weight.shape[2];
  if (space_h < 0 || space_w < 0)
    throw InvalidArgument(fmt::format("{}: the kernel {} is larger than the padded x {}", op, weight.shape.text(), x.shape.text()));
  const Shape wanted{space_h / args.stride + 1, space_w / args.stride + 1, weight.shape[0]};
  if (y.shape != wanted)
    throw InvalidArgument(
        fmt::format("{}: y is {} but must be {} for x {} and weight {}", op, y.shape.text(), wanted.text(), x.shape.text(), weight.shape.text()));
  if (residual) {
    check_map(op, "residual", *residual, x.device);
    if (residual->shape != wanted) throw InvalidArgument(fmt::format("{}: residual is {} but y is {}", op, residual->shape.text(), wanted.text()));
  }
}

}  // namespace

void conv2d(ExecContext& ctx, const TensorView& x, const ConvWeights& w, const ConvArgs& args, const std::optional<TensorView>& residual, const TensorView& y) {
  check_conv2d(w.name.empty() ? "conv2d" : fmt::format("conv2d '{}'", w.name), x, w, args, residual, y);
  const OpSpan span(ctx, [&] { return convolution_work(w.name, x, w.weight, y); });
  if (x.device.is_cpu()) return ctx.reference ? conv2d_cpu(x, w, args, residual, y) : conv2d_cpu_fast(ctx, x, w, args, residual, y);
  if constexpr (build::has_cuda && kConv2dHasCuda) return conv2d_cuda(ctx, x, w, args, residual, y);
  no_gpu_body("conv2d");
}

}  // namespace octavo
