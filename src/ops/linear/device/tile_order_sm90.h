// In which order the Hopper kernel visits tiles. Plain C++: a CPU test walks it.
#pragma once

#include "cuda/host_device.h"

namespace octavo::sm90 {

inline constexpr int kMaxGroups = 2;

// The output is cut into cluster tiles (all CTAs of a cluster together). They are visited in bands of `band` tiles along M that sweep N, so that the
// tiles in flight at one time form a near-square patch and share rows of x and w in the L2. Odd bands sweep backwards: the turn reuses w.
// The last `items - whole` items are halves (along N) of the last tiles: a last wave that would leave half of the GPU idle runs in half the time.
struct TileOrder {
  int m_tiles[kMaxGroups];
  int n_tiles;
  int band[kMaxGroups];
  int whole;
  int items;
};

struct Tile {
  int group;
  int m_tile;
  int n_tile;
  int half;  // -1: the whole tile
};

OCTAVO_HOST_DEVICE Tile tile_of_item(const TileOrder& order, int item) {
  Tile tile{0, 0, 0, -1};
  int index = item;
  if (item >= order.whole) {
    index = order.whole + (item - order.whole) / 2;
    tile.half = (item - order.whole) % 2;
  }
  const int first_group = order.m_tiles[0] * order.n_tiles;
  if (index >= first_group) {
    tile.group = 1;
    index -= first_group;
  }
  const int band = order.band[tile.group];
  const int band_tiles = band * order.n_tiles;
  const int band_index = index / band_tiles;
  const int in_band = index - band_index * band_tiles;
  const int rows_left = order.m_tiles[tile.group] - band_index * band;
  const int rows = rows_left < band ? rows_left : band;
  const int column = in_band / rows;
  tile.m_tile = band_index * band + (in_band - column * rows);
  tile.n_tile = band_index % 2 == 0 ? column : order.n_tiles - 1 - column;
  return tile;
}

// The order for `clusters` clusters that each take every clusters-th item. Bands of about `band` tiles: as equal as can be, for a narrow last band is slow.
inline TileOrder make_tile_order(int m_tiles0, int m_tiles1, int n_tiles, int band, int clusters, bool halve_last_wave) {
  TileOrder order{{m_tiles0, m_tiles1}, n_tiles, {1, 1}, 0, 0};
  for (int g = 0; g < kMaxGroups; ++g) {
    if (band < 1 || order.m_tiles[g] == 0) continue;
    const int bands = order.m_tiles[g] < band ? 1 : (order.m_tiles[g] + band / 2) / band;
    order.band[g] = (order.m_tiles[g] + bands - 1) / bands;
  }
  const int tiles = (m_tiles0 + m_tiles1) * n_tiles;
  const int last_wave = tiles % clusters;
  const bool halve = halve_last_wave && 2 * last_wave <= clusters;
  order.whole = halve ? tiles - last_wave : tiles;
  order.items = halve ? tiles + last_wave : tiles;
  return order;
}

}  // namespace octavo::sm90
