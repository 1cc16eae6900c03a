// In which order tiles are computed: groups of M tiles sweep all N tiles, so that one wave's rows of x and w fit the L2 cache.
//
//        n →                 with raster_group 2:   0 2 4 6 …
//      m [ tiles ]                                  1 3 5 7 …
//      ↓                                            then the next two rows of tiles
#pragma once

#include <cstdint>

#include "cuda/host_device.h"

namespace octavo::device {

// n / d for 0 <= n < 2^31 by a product: with 2^s >= d and f = floor(2^(31+s) / d) + 1, n · f / 2^(31+s) exceeds n / d by less than 1 / d.
struct Divider {
  std::uint32_t factor = 0;
  std::uint32_t shift = 0;
};

inline Divider divider_of(int d) {
  std::uint32_t s = 0;
  while ((std::int64_t{1} << s) < d) ++s;
  return {.factor = std::uint32_t((std::uint64_t{1} << (31 + s)) / std::uint32_t(d) + 1), .shift = 31 + s};
}

OCTAVO_HOST_DEVICE int quotient(int n, Divider by) { return int((std::uint64_t(std::uint32_t(n)) * by.factor) >> by.shift); }

// Rows of tiles per group for `ctas` tiles at a time. They read group · tile_m rows of x and ctas/group · tile_n rows of w, least in sum at
// group = sqrt(ctas · tile_n / tile_m).
inline int best_raster_group(int ctas, int tile_m, int tile_n, int tiles_m) {
  int group = 1;
  while (group < tiles_m && (2 * group + 1) * (2 * group + 1) * tile_m <= 4 * ctas * tile_n) ++group;  // rounds to nearest: (group + 1/2)² still below
  return group;
}

struct TilePosition {
  int group = 0;   // which of the two problems
  int m_tile = 0;  // within that problem
  int n_tile = 0;
};

// Tile number `id` of a launch whose problems have tiles_m0 and tiles_m1 (0 if alone) rows of tiles, tiles_n columns each.
// The problems follow one another: their weights differ, so a group of M tiles never spans both.
OCTAVO_HOST_DEVICE TilePosition locate_tile(int id, int tiles_m0, int tiles_m1, int tiles_n, int raster_group) {
  TilePosition at;
  const int first = tiles_m0 * tiles_n;
  int tiles_m = tiles_m0;
  if (id >= first) {
    at.group = 1;
    id -= first;
    tiles_m = tiles_m1;
  }
  const int per_group = raster_group * tiles_n;
  const int group = id / per_group;
  const int within = id - group * per_group;
  const int rows_left = tiles_m - group * raster_group;
  const int rows = rows_left < raster_group ? rows_left : raster_group;
  at.n_tile = within / rows;
  at.m_tile = group * raster_group + (within - at.n_tile * rows);
  return at;
}

// The same order for a kernel: every division that locate_tile wants, prepared on the host.
struct TileOrder {
  int tiles_m0 = 0, tiles_m1 = 0, tiles_n = 0;
  int raster_group = 1;
  Divider per_group{};     // raster_group · tiles_n
  Divider rows{};          // raster_group
  Divider last_rows[2]{};  // of each problem's last group
};

inline TileOrder tile_order_of(int tiles_m0, int tiles_m1, int tiles_n, int raster_group) {
  const auto last = [&](int tiles_m) { return divider_of(tiles_m % raster_group == 0 ? raster_group : tiles_m % raster_group); };
  // A group larger than both problems divides like one of their size, and raster_group · tiles_n stays in 31 bits.
  const int most = tiles_m0 > tiles_m1 ? tiles_m0 : tiles_m1;
  if (raster_group > most) raster_group = most > 0 ? most : 1;
  return {tiles_m0, tiles_m1, tiles_n, raster_group, divider_of(raster_group * tiles_n), divider_of(raster_group), {last(tiles_m0), last(tiles_m1)}};
}

OCTAVO_HOST_DEVICE TilePosition locate_tile(int id, const TileOrder& order) {
  TilePosition at;
  const int first = order.tiles_m0 * order.tiles_n;
  int tiles_m = order.tiles_m0;
  if (id >= first) {
    at.group = 1;
    id -= first;
    tiles_m = order.tiles_m1;
  }
  const int group = quotient(id, order.per_group);
  const int within = id - group * order.raster_group * order.tiles_n;
  const int rows_left = tiles_m - group * order.raster_group;
  const bool whole = rows_left >= order.raster_group;
  const int rows = whole ? order.raster_group : rows_left;
  at.n_tile = quotient(within, whole ? order.rows : order.last_rows[at.group]);
  at.m_tile = group * order.raster_group + (within - at.n_tile * rows);
  return at;
}

}  // namespace octavo::device
