#include "ops/random_fill/random_fill.h"

#include <algorithm>
#include <cmath>

#include "base/build.h"
#include "ops/checks.h"
#include "ops/random_fill/random_fill_backend.h"
#include "ops/random_fill/random_value.h"

namespace octavo {
namespace {

void random_fill_cpu(const TensorView& out, float factor, std::uint64_t seed) {
  constexpr std::int64_t kPanel = 1024;
  float values[kPanel];
  const std::int64_t count = out.shape.elements();
  for (std::int64_t first = 0; first < count; first += kPanel) {
    const std::int64_t here = std::min(kPanel, count - first);
    for (std::int64_t i = 0; i < here; ++i) values[i] = float(random_sum(seed, std::uint64_t(first + i))) * factor;
    if (out.dtype == DType::s8) {
      for (std::int64_t i = 0; i < here; ++i) out.as<std::int8_t>()[first + i] = std::int8_t(std::rint(values[i]));
    } else {
      store_from_float(values, here, out.dtype, out.as<std::byte>() + std::size_t(first) * bytes_of(out.dtype));
    }
  }
}

}  // namespace

void random_fill(ExecContext& ctx, const TensorView& out, float sigma, std::uint64_t seed) {
  if (!out.is_dense() || (!is_float(out.dtype) && out.dtype != DType::s8))
    throw InvalidArgument(fmt::format("random_fill: out is {}; a dense f32, bf16, f16 or s8 tensor is needed", describe(out)));
  check_memory("random_fill", "out", out);
  const float factor = (out.dtype == DType::s8 ? kRandomCodeSigma : sigma) * kRandomUnit;
  if (out.device.is_cpu()) return random_fill_cpu(out, factor, seed);
  if constexpr (build::has_cuda) return random_fill_cuda(out, factor, seed, ctx.stream == nullptr ? nullptr : ctx.stream->handle());
  no_gpu_body("random_fill");
}

}  // namespace octavo
