#include "device/cuda_check.h"
#include "ops/embed/embed_backend.h"
#include "ops/embed/embed_launch.h"
#include "ops/row_launch.h"

namespace octavo {

void embed_rows_cuda(ExecContext& ctx, const TensorView& table, std::span<const std::int32_t> ids, const TensorView& y) {
  check_kernel_range("embed_rows", y.rows(), y.columns());
  if (y.shape.elements() == 0) return;
  cuda_check(cudaSetDevice(y.device.index), "embed_rows: select device");
  const ArenaScope scope(*ctx.scratch);
  void* on_gpu = ctx.scratch->take(ids.size_bytes(), "token ids");
  copy_bytes(on_gpu, y.device, ids.data(), Device{}, ids.size_bytes(), ctx.stream);
  launch_embed({.table = rows_in(table), .y = rows_in(y), .ids = static_cast<const std::int32_t*>(on_gpu), .rows = y.rows(), .columns = int(y.columns())},
               stream_of(ctx));
}

}  // namespace octavo
