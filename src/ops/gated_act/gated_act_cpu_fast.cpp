// silu_mul and silu over the pool, with the vector exponential of cpu/exp.h.
// silu's relative error against the plain body: both exponentials are within 3 · 2^-24 and 1 · 2^-24 of e^-a, which is at most the whole
// denominator, and each body rounds three times: |fast - plain| <= 10 · 2^-24 |plain|.
#include <vector>

#include "cpu/slots.h"
#include "ops/gated_act/gated_act_backend.h"
#include "ops/row_store.h"

namespace octavo {

void silu_mul_cpu_fast(ExecContext& ctx, const TensorView& act_gate, const TensorView& up, const RowOutput& out) {
  const std::int64_t columns = up.columns();
  cpu::for_each_rows(*ctx.pool, up.rows(), up.columns(), kRowChunk, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> a(static_cast<std::size_t>(columns));
    std::vector<float> b(static_cast<std::size_t>(columns));
    for (std::int64_t m = first; m < first + count; ++m) {
      cpu::load_floats(act_gate.row_bytes(m), act_gate.dtype, columns, a.data());
      cpu::load_floats(up.row_bytes(m), up.dtype, columns, b.data());
      cpu::silu_mul(a.data(), b.data(), columns);
      store_row_fast(a.data(), m, out);
    }
  });
}

void silu_cpu_fast(ExecContext& ctx, const TensorView& x) {
  cpu::for_each_rows(*ctx.pool, x.rows(), x.columns(), kRowChunk, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t m = first; m < first + count; ++m) cpu::silu(x.row<float>(m), x.columns());
  });
}

}  // namespace octavo
