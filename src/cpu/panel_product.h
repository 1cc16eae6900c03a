// A whole matrix product out of panel kernels: packs, blocks, hands blocks to the pool.
//   c[m,n] = Σ_k a[m,k] · b[n,k],  handed to `finish` row by row
#pragma once

#include <cstdint>
#include <functional>

#include "base/thread_pool.h"
#include "cpu/panel_kernel.h"
#include "device/buffer.h"
#include "tensor/tensor.h"

namespace octavo::cpu {

// Rows of 32-bit units in memory.
struct Strip {
  const std::uint32_t* units = nullptr;
  std::int64_t stride = 0;
};

// Units [first_unit, first_unit + units) of `rows` rows from first_row on. Returns where they lie, or writes them to `room` ([rows][units]) and
// returns that. Units past the end of K are zero. Called from several threads at once.
using StripSource = std::function<Strip(std::int64_t first_row, int rows, std::int64_t first_unit, std::int64_t units, std::uint32_t* room)>;

template <class Acc>
struct PanelProduct {
  std::int64_t m = 0, n = 0, k = 0;
  StripSource a{};  // rows of the result
  StripSource b{};  // columns of the result
  // Receives columns [first, first + count) of row m, complete; may change them in place. Called from several threads at once.
  std::function<void(std::int64_t m, std::int64_t first, std::int64_t count, Acc* values)> finish{};
};

// The same bits for any number of threads, and for a row whatever the other rows are. K is never split.
template <class Acc>
void multiply_panels(ThreadPool& pool, Arena& scratch, const PanelKernel<Acc>& kernel, const PanelProduct<Acc>& product);

// Rows of a float matrix (f32, bf16, f16) as units of one f32. The view must outlive the source.
StripSource float_rows(const TensorView& matrix);
// Rows of an s8 matrix in the units of an integer kernel, as a tile or as a panel wants them.
StripSource tile_rows(const PanelKernel<std::int32_t>& kernel, const TensorView& matrix);
StripSource panel_rows(const PanelKernel<std::int32_t>& kernel, const TensorView& matrix);

}  // namespace octavo::cpu
