// What a Hopper GEMM launch is told: operands, tensor maps, and the order in which tiles are visited.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "ops/linear/device/gemm_args.h"

namespace octavo::sm90 {

using device::Finish;
using device::Out;

inline constexpr int kMaxGroups = 2;

struct Group {
  CUtensorMap x, w;
  const float* x_scale;
  const float* w_scale;
  const float* bias;
  const float* mod_gate;
  const void* residual;
  void* y_data;
  long long residual_stride;
  long long y_stride;
  int m;
};

// The output is cut into cluster tiles (all CTAs of a cluster together). They are visited in bands of `band` tiles along M that sweep N, so that the
// tiles in flight at one time form a near-square patch and share rows of x and w in the L2. Odd bands sweep backwards: the turn reuses w.
// The last `items - whole` items are halves (along N) of the last tiles: a last wave that would leave half of the GPU idle runs in half the time.
struct TileOrder {
  int m_tiles[kMaxGroups];
  int n_tiles;
  int band;
  int whole;
  int items;
};

struct Tile {
  int group;
  int m_tile;
  int n_tile;
  int half;  // -1: the whole tile
};

__host__ __device__ inline Tile tile_of_item(const TileOrder& order, int item) {
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
  const int band_tiles = order.band * order.n_tiles;
  const int band_index = index / band_tiles;
  const int in_band = index - band_index * band_tiles;
  const int rows_left = order.m_tiles[tile.group] - band_index * order.band;
  const int rows = rows_left < order.band ? rows_left : order.band;
  const int column = in_band / rows;
  tile.m_tile = band_index * order.band + (in_band - column * rows);
  tile.n_tile = band_index % 2 == 0 ? column : order.n_tiles - 1 - column;
  return tile;
}

// The order for `clusters` clusters that each take every clusters-th item.
inline TileOrder make_tile_order(int m_tiles0, int m_tiles1, int n_tiles, int band, int clusters, bool halve_last_wave) {
  TileOrder order{{m_tiles0, m_tiles1}, n_tiles, band < 1 ? 1 : band, 0, 0};
  const int tiles = (m_tiles0 + m_tiles1) * n_tiles;
  const int last_wave = tiles % clusters;
  const bool halve = halve_last_wave && 2 * last_wave <= clusters;
  order.whole = halve ? tiles - last_wave : tiles;
  order.items = halve ? tiles + last_wave : tiles;
  return order;
}

enum class Keep : std::int32_t { normal, last, first };  // L2 eviction priority of a stream

struct Params {
  Group group[kMaxGroups];
  TileOrder order;
  int n;
  int k_blocks;
  Out out;
  Finish finish;
  bool direct;           // plain bf16, rows made of aligned 16-byte groups
  bool vector_y;         // two neighbouring outputs can be stored at once
  bool vector_residual;  // two neighbouring residuals can be loaded at once
  int stagger;           // k blocks by which the second consumer warpgroup starts later
  Keep keep_x, keep_w;
};

}  // namespace octavo::sm90
