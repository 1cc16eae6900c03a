#include "ops/linear/linear_backend.h"

namespace octavo {

void linear_cpu_fast(ExecContext&, const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  linear_cpu(x, w, epilogue, y);
}
void linear_cpu_fast(ExecContext&, const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  linear_cpu(x, w, epilogue, y);
}
void linear_accumulate_cpu_fast(ExecContext&, const TensorView& x, const TensorView& w, const TensorView& acc) { linear_accumulate_cpu(x, w, acc); }

}  // namespace octavo
