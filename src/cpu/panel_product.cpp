#include "cpu/panel_product.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/checked_math.h"
#include "cpu/convert.h"
#include "cpu/slots.h"

namespace octavo::cpu {
namespace {

// Rows that are packed at once. More would only need more scratch: a packed panel of b is already used by 1024 / 14 tiles.
constexpr std::int64_t kGroupRows = 1024;

// Products of fewer multiplications than this (some 10 µs) are not worth waking a thread.
constexpr double kWorthSharingProducts = 1 << 19;

// How one product is cut. None of these numbers reaches a bit of the result.
struct Cut {
  std::int64_t units = 0;       // of K, padded
  std::int64_t group_rows = 0;  // rows packed together
  std::int64_t block_units = 0;
  std::int64_t span_units = 0;  // of K, packed together: some blocks
  std::int64_t block_columns = 0;
  int tile_rows = 0;
  std::int64_t tile_size = 0;  // units of scratch for a packed tile
  int threads = 1;

  template <class Acc>
  Cut(const PanelKernel<Acc>& kernel, const PanelProduct<Acc>& product, int most_threads) : threads(most_threads) {
    units = round_up(ceil_div(product.k, kernel.elements_per_unit), kernel.unit_step);
    group_rows = std::min(product.m, kGroupRows);
    block_units = std::min<std::int64_t>(units, kernel.block_units);
    // Two blocks of columns per thread at least, if there are so many columns.
    block_columns =
        std::clamp<std::int64_t>(round_up(ceil_div(product.n, 2 * std::int64_t(threads)), kernel.columns), 2 * kernel.columns, kernel.block_columns);
    block_columns = std::min(block_columns, round_up(product.n, kernel.columns));
    // As much of K as the packed columns may take: sums then stay in L1 from block to block. If all of K fits they never leave it.
    span_units = std::min(units, std::max(block_units, kernel.packed_units / block_columns / block_units * block_units));
    // Equal tiles: 24 rows are 12 + 12, not 14 + 10.
    const std::int64_t tiles = ceil_div(group_rows, kernel.rows);
    tile_rows = int(round_up(ceil_div(group_rows, tiles), kernel.row_step));
    tile_size = round_up(tile_rows * units + kPackSlack, 16);
  }
};

template <class Acc>
class Group {  // a group of rows meets all columns
 public:
  Group(ThreadPool& pool, const PanelKernel<Acc>& kernel, const PanelProduct<Acc>& product, const Cut& cut, std::int64_t first_row)
      : pool_(pool),
        kernel_(kernel),
        product_(product),
        cut_(cut),
        first_row_(first_row),
        rows_(std::min(cut.group_rows, product.m - first_row)),
        tiles_(ceil_div(rows_, cut.tile_rows)),
        column_blocks_(ceil_div(product.n, cut.block_columns)) {
    // With more threads than column blocks the rows are shared out too; each part then packs its columns again.
    parts_ = std::clamp<std::int64_t>(cut.threads / column_blocks_, 1, tiles_);
    tiles_per_part_ = ceil_div(tiles_, parts_);
  }

  void run(Arena& scratch) {
    ArenaScope scope(scratch);
    const std::int64_t tasks = column_blocks_ * parts_;
    const std::int64_t slots = std::min<std::int64_t>(cut_.threads, std::max(tasks, tiles_));
    const std::int64_t strip_rows = std::max(cut_.tile_rows, kernel_.columns);
    auto take = [&](std::int64_t count) { return static_cast<std::uint32_t*>(scratch.take(std::size_t(count) * 4, "matrix product")); };
    tiles_packed_ = take(tiles_ * cut_.tile_size);
    room_size_ = strip_rows * cut_.block_units;
    room_ = take(slots * room_size_);
    panel_size_ = (cut_.block_units + 1) * kernel_.columns + kPackSlack;
    panels_size_ = panel_size_ * (cut_.block_columns / kernel_.columns);
    span_size_ = panels_size_ * ceil_div(cut_.span_units, cut_.block_units);
    panels_ = take(slots * span_size_);
    single_span_ = cut_.span_units == cut_.units;
    sums_size_ = (single_span_ ? 1 : tiles_per_part_) * cut_.tile_rows * cut_.block_columns;
    sums_ = reinterpret_cast<Acc*>(take(slots * sums_size_));
    for_each_in_slots(pool_, slots, tiles_, [&](std::int64_t tile, std::int64_t slot) { pack_tile(tile, slot); });
    std::atomic<std::int64_t> next{0};
    pool_.for_each(std::min(slots, tasks), [&](std::int64_t slot) {
      if (kernel_.enter != nullptr) kernel_.enter();
      for (std::int64_t task = next.fetch_add(1); task < tasks; task = next.fetch_add(1)) multiply_block(task % column_blocks_, task / column_blocks_, slot);
      if (kernel_.leave != nullptr) kernel_.leave();
    });
  }

 private:
  int rows_of(std::int64_t tile) const { return int(std::min<std::int64_t>(cut_.tile_rows, rows_ - tile * cut_.tile_rows)); }
  int padded_rows_of(std::int64_t tile) const { return int(round_up(rows_of(tile), kernel_.row_step)); }

  void pack_tile(std::int64_t tile, std::int64_t slot) {
    const int rows = rows_of(tile);
    const int padded = padded_rows_of(tile);
    for (std::int64_t u = 0; u < cut_.units; u += cut_.block_units) {
      const std::int64_t count = std::min(cut_.block_units, cut_.units - u);
      const Strip strip = product_.a(first_row_ + tile * cut_.tile_rows, rows, u, count, room_ + slot * room_size_);
      std::uint32_t* to = tiles_packed_ + tile * cut_.tile_size + u * padded;
      if (!kernel_.rows_stay) {
        interleave(kernel_.isa, strip.units, strip.stride, rows, count, padded, to);
        continue;
      }
      for (int row = 0; row < rows; ++row) std::memcpy(to + row * count, strip.units + row * strip.stride, std::size_t(count) * 4);
      std::memset(to + rows * count, 0, std::size_t((padded - rows) * count) * 4);
    }
  }

  // Units [u, u + count) of a block of columns, panel by panel.
  void pack_panels(std::int64_t first_column, std::int64_t columns, std::int64_t u, std::int64_t count, std::int64_t slot, std::uint32_t* to) {
    for (std::int64_t n = 0; n < columns; n += kernel_.columns, to += panel_size_) {
      const int here = int(std::min<std::int64_t>(kernel_.columns, columns - n));
      const Strip strip = product_.b(first_column + n, here, u, count, room_ + slot * room_size_);
      interleave(kernel_.isa, strip.units, strip.stride, here, count, kernel_.columns, to);
      if (kernel_.seal != nullptr) kernel_.seal(to, count);
    }
  }

  void multiply_block(std::int64_t column_block, std::int64_t part, std::int64_t slot) {
    const std::int64_t first_column = column_block * cut_.block_columns;
    const std::int64_t columns = std::min(cut_.block_columns, product_.n - first_column);
    const std::int64_t first_tile = part * tiles_per_part_;
    const std::int64_t last_tile = std::min(tiles_, first_tile + tiles_per_part_);
    std::uint32_t* packed = panels_ + slot * span_size_;
    for (std::int64_t start = 0; start < cut_.units; start += cut_.span_units) {
      const std::int64_t end = std::min(start + cut_.span_units, cut_.units);
      for (std::int64_t u = start; u < end; u += cut_.block_units) {
        pack_panels(first_column, columns, u, std::min(cut_.block_units, end - u), slot, packed + (u - start) / cut_.block_units * panels_size_);
      }
      for (std::int64_t tile = first_tile; tile < last_tile; ++tile) {
        Acc* sums = sums_ + slot * sums_size_ + (single_span_ ? 0 : tile - first_tile) * cut_.tile_rows * cut_.block_columns;
        multiply_tile(tile, start, end, columns, packed, sums);
        if (end < cut_.units) continue;
        for (int row = 0; row < rows_of(tile); ++row) {
          product_.finish(first_row_ + tile * cut_.tile_rows + row, first_column, columns, sums + row * cut_.block_columns);
        }
      }
    }
  }

  // Units [start, end) of a tile, block by block, with all panels of a block of columns.
  void multiply_tile(std::int64_t tile, std::int64_t start, std::int64_t end, std::int64_t columns, const std::uint32_t* packed, Acc* sums) {
    const int padded = padded_rows_of(tile);
    for (std::int64_t u = start; u < end; u += cut_.block_units, packed += panels_size_) {
      const std::uint32_t* panel = packed;
      for (std::int64_t n = 0; n < columns; n += kernel_.columns, panel += panel_size_) {
        kernel_.multiply(tiles_packed_ + tile * cut_.tile_size + u * padded, padded, panel, std::min(cut_.block_units, end - u), sums + n, cut_.block_columns,
                         u != 0);
      }
    }
  }

  ThreadPool& pool_;
  const PanelKernel<Acc>& kernel_;
  const PanelProduct<Acc>& product_;
  const Cut& cut_;
  std::int64_t first_row_, rows_, tiles_, column_blocks_;
  std::int64_t parts_ = 1, tiles_per_part_ = 1;
  std::uint32_t *tiles_packed_ = nullptr, *room_ = nullptr, *panels_ = nullptr;
  Acc* sums_ = nullptr;
  std::int64_t room_size_ = 0, panel_size_ = 0, panels_size_ = 0, span_size_ = 0, sums_size_ = 0;
  bool single_span_ = false;
};

StripSource s8_rows(const PanelKernel<std::int32_t>& kernel, const TensorView& matrix, void (*load)(const std::int8_t*, std::int64_t, std::uint32_t*)) {
  const std::int64_t per_unit = kernel.elements_per_unit;
  // Without `load` a row is its units already, where the rows begin and end on whole ones.
  const bool lies_ready = load == nullptr && matrix.row_stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(matrix.data) % 4 == 0;
  return [matrix, load, per_unit, lies_ready](std::int64_t first_row, int rows, std::int64_t first_unit, std::int64_t units, std::uint32_t* room) {
    const std::int64_t first = first_unit * per_unit;
    const std::int64_t count = std::clamp<std::int64_t>(matrix.columns() - first, 0, units * per_unit);
    const auto* from = matrix.row<std::int8_t>(first_row) + first;
    if (lies_ready && count == units * per_unit) return Strip{reinterpret_cast<const std::uint32_t*>(from), matrix.row_stride / 4};
    const std::int64_t loaded = ceil_div(count, per_unit);
    for (int row = 0; row < rows; ++row, from += matrix.row_stride) {
      std::uint32_t* to = room + row * units;
      if (load != nullptr) {
        load(from, count, to);
      } else {
        if (count % per_unit != 0) to[count / per_unit] = 0;
        std::memcpy(to, from, std::size_t(count));
      }
      std::fill(to + loaded, to + units, 0u);
    }
    return Strip{room, units};
  };
}

}  // namespace

template <class Acc>
void multiply_panels(ThreadPool& pool, Arena& scratch, const PanelKernel<Acc>& kernel, const PanelProduct<Acc>& product) {
  if (product.m == 0 || product.n == 0) return;
  const bool is_small = double(product.m) * double(product.n) * double(product.k) < kWorthSharingProducts;
  const Cut cut(kernel, product, is_small ? 1 : pool.size());
  for (std::int64_t first_row = 0; first_row < product.m; first_row += cut.group_rows) Group<Acc>(pool, kernel, product, cut, first_row).run(scratch);
}

template void multiply_panels(ThreadPool&, Arena&, const PanelKernel<float>&, const PanelProduct<float>&);
template void multiply_panels(ThreadPool&, Arena&, const PanelKernel<std::int32_t>&, const PanelProduct<std::int32_t>&);

StripSource float_rows(const TensorView& matrix) {
  return [matrix](std::int64_t first_row, int rows, std::int64_t first_unit, std::int64_t units, std::uint32_t* room) {
    if (matrix.dtype == DType::f32) return Strip{reinterpret_cast<const std::uint32_t*>(matrix.row<float>(first_row) + first_unit), matrix.row_stride};
    for (int row = 0; row < rows; ++row) {
      const auto* from = static_cast<const std::byte*>(matrix.row_bytes(first_row + row)) + std::size_t(first_unit) * bytes_of(matrix.dtype);
      load_floats(from, matrix.dtype, units, reinterpret_cast<float*>(room) + row * units);
    }
    return Strip{room, units};
  };
}

StripSource tile_rows(const PanelKernel<std::int32_t>& kernel, const TensorView& matrix) { return s8_rows(kernel, matrix, kernel.load_tile_row); }
StripSource panel_rows(const PanelKernel<std::int32_t>& kernel, const TensorView& matrix) { return s8_rows(kernel, matrix, kernel.load_panel_row); }

}  // namespace octavo::cpu
