// The innermost part of every matrix product on the CPU: a tile of a few rows times a panel of a few columns.
//
// Operands are packed as 32-bit units, whatever they are: one f32, a pair of s16, or four s8. A packed panel holds, unit after unit, the
// same unit of all its columns:  b[u][column].  A packed tile is the same with rows:  a[u][row]  (AMX takes rows as they are:  a[row][u]).
//   c[row, column] (+)= Σ_u a[u][row] · b[u][column]
// f32: one chain of fused multiply-adds in the order of u, starting at 0, for every element. So neither the size of a tile, nor the
// neighbours of a row, nor a pause between two blocks of u changes a bit. s32: exact modulo 2^32.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace octavo::cpu {

inline constexpr int kMaxBlockColumns = 256;  // of any kernel below

template <class Acc>
struct PanelKernel {
  Isa isa = Isa::plain;
  int rows = 0;                   // most rows of a tile
  int row_step = 1;               // tiles have a multiple of this many rows
  int columns = 0;                // columns of a panel; always all of them are computed
  int elements_per_unit = 1;      // K elements in a unit
  int unit_step = 1;              // K is padded with zero units to a multiple of this
  int block_units = 256;          // units per call: a tile of that many stays in L1 while it meets several panels
  int block_columns = 128;        // columns packed together: block_units × block_columns units stay in L2
  std::int64_t packed_units = 0;  // units of packed columns that may be alive at once, if more than one block: what L2 can spare
  bool rows_stay = false;         // tiles are a[row][u], `units` apart
  // accumulate: adds to c instead of replacing it.
  void (*multiply)(const std::uint32_t* a, int rows, const std::uint32_t* b, std::int64_t units, Acc* c, std::int64_t c_stride, bool accumulate) = nullptr;
  // Integer kernels: K elements of one row as units, for a tile and for a panel; the tail of the last unit is zero.
  // Null: four s8 as they lie.
  void (*load_tile_row)(const std::int8_t* from, std::int64_t count, std::uint32_t* to) = nullptr;
  void (*load_panel_row)(const std::int8_t* from, std::int64_t count, std::uint32_t* to) = nullptr;
  void (*seal)(std::uint32_t* b, std::int64_t units) = nullptr;  // if set: fills one more row b[units] after packing
  void (*enter)() = nullptr;                                     // if set: around a series of calls on one thread
  void (*leave)() = nullptr;
};

// The kernel of that step, or of the nearest one below that has its own. Throws nothing; `isa` must not exceed best_isa().
const PanelKernel<float>& f32_kernel(Isa isa);
const PanelKernel<std::int32_t>& s8_kernel(Isa isa);

// to[u · width + row] = from[row · stride + u] for row < rows, 0 for rows <= row < width.
// `width` is what the kernels of that step have: at most their rows, or their columns.
// May write up to kPackSlack units past the end.
inline constexpr std::int64_t kPackSlack = 16;
void interleave(Isa isa, const std::uint32_t* from, std::int64_t stride, int rows, std::int64_t units, int width, std::uint32_t* to);

}  // namespace octavo::cpu
