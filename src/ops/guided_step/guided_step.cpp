#include "ops/guided_step/guided_step.h"

#include "base/build.h"
#include "ops/checks.h"
#include "ops/guided_step/guided_step_backend.h"
#include "ops/op_work.h"

namespace octavo {

void guided_step(ExecContext& ctx, const TensorView& z, const TensorView& v_cond, const std::optional<TensorView>& v_uncond, float guidance,
                 float step_length) {
  constexpr std::string_view op = "guided_step";
  const auto check = [&](std::string_view what, const TensorView& view) {
    check_matrix(op, what, view, DType::f32, z.rows(), z.columns(), z.device);
    if (!view.is_dense()) throw InvalidArgument(fmt::format("{}: {} {} must be dense", op, what, describe(view)));
  };
  check("z", z);
  check("v_cond", v_cond);
  check_apart(op, "v_cond", v_cond, z);
  if (v_uncond) {
    check("v_uncond", *v_uncond);
    check_apart(op, "v_uncond", *v_uncond, z);
  }
  const float* uncond = v_uncond ? v_uncond->as<const float>() : nullptr;
  const std::int64_t count = z.shape.elements();
  const OpSpan span(ctx, [&] { return row_work(op, z, 2 * bytes_of_rows(z) + bytes_of_rows(v_cond) + (v_uncond ? bytes_of_rows(*v_uncond) : 0)); });
  if (z.device.is_cpu()) return guided_step_cpu(z.as<float>(), v_cond.as<const float>(), uncond, guidance, step_length, count);
  if constexpr (build::has_cuda && kGuidedStepHasCuda) {
    void* stream = ctx.stream == nullptr ? nullptr : ctx.stream->handle();
    return guided_step_cuda(z.as<float>(), v_cond.as<const float>(), uncond, guidance, step_length, count, z.device, stream);
  }
  no_gpu_body(op);
}

}  // namespace octavo
