// In which order tiles are computed: groups of M tiles sweep all N tiles, so that one wave's rows of x and w fit the L2 cache.
//
//        n →                 with raster_group 2:   0 2 4 6 …
//      m [ tiles ]                                  1 3 5 7 …
//      ↓                                            then the next two rows of tiles
#pragma once

#include "cuda/host_device.h"

namespace octavo::device {

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

}  // namespace octavo::device
