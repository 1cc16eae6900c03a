// The parts of the Hopper GEMM that are plain arithmetic: the order of its tiles, and where a warp's slab lies in shared memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ops/linear/device/slab_sm90.h"
#include "ops/linear/device/tile_order_sm90.h"

namespace octavo::sm90 {
namespace {

constexpr int kLanes = 32;
constexpr int kBanks = 32;

// Passes of one access: lanes that fall on different words of one bank take turns. `lanes` of them are served together.
template <class Address>
int most_passes(int lanes, int bytes, Address address_of_lane) {
  int most = 0;
  for (int first = 0; first < kLanes; first += lanes) {
    std::map<int, std::set<int>> words;
    for (int lane = first; lane < first + lanes; ++lane) {
      for (int word = address_of_lane(lane) / 4; word < (address_of_lane(lane) + bytes) / 4; ++word) words[word % kBanks].insert(word);
    }
    for (const auto& [bank, distinct] : words) most = std::max(most, int(distinct.size()));
  }
  return most;
}

template <int kColumns>
void expect_direct_slab_is_free_of_conflicts() {
  for (int pair = 0; pair < kColumns / 16; ++pair) {  // stmatrix: eight lanes give the eight rows of one matrix
    EXPECT_EQ(most_passes(8, 16, [&](int lane) { return direct_slab_offset<kColumns>(lane / 8 % 2 * 8 + lane % 8, pair * 2 + lane / 16); }), 1);
  }
  constexpr int kLanesPerRow = kColumns / 8;
  for (int first = 0; first < kSlabRows; first += kLanes / kLanesPerRow) {
    EXPECT_EQ(most_passes(8, 16, [&](int lane) { return direct_slab_offset<kColumns>(first + lane / kLanesPerRow, lane % kLanesPerRow); }), 1);
  }
}

TEST(Sm90Slab, direct_way_meets_no_bank_twice) {
  expect_direct_slab_is_free_of_conflicts<64>();
  expect_direct_slab_is_free_of_conflicts<32>();
  expect_direct_slab_is_free_of_conflicts<16>();
}

TEST(Sm90Slab, general_way_meets_no_bank_twice) {
  for (int block = 0; block < 4; ++block) {  // 8 bytes per lane, half a warp at a time
    for (int half = 0; half < 2; ++half) {
      EXPECT_EQ(most_passes(16, 8, [&](int lane) { return general_slab_offset(lane / 4 + 8 * half, block * 2 + lane % 4 / 2) + lane % 2 * 8; }), 1);
    }
  }
  for (int first = 0; first < kSlabRows; first += 2) {
    EXPECT_EQ(most_passes(16, 8, [&](int lane) { return general_slab_offset(first + lane / 16, lane % 16 / 2) + lane % 2 * 8; }), 1);
  }
}

TEST(Sm90Slab, every_chunk_has_a_place_of_its_own_inside) {
  std::set<int> direct, narrow, narrowest, general;
  for (int row = 0; row < kSlabRows; ++row) {
    for (int chunk = 0; chunk < 8; ++chunk) direct.insert(direct_slab_offset<64>(row, chunk)), general.insert(general_slab_offset(row, chunk));
    for (int chunk = 0; chunk < 4; ++chunk) narrow.insert(direct_slab_offset<32>(row, chunk));
    for (int chunk = 0; chunk < 2; ++chunk) narrowest.insert(direct_slab_offset<16>(row, chunk));
  }
  EXPECT_EQ(direct.size(), 16u * 8);
  EXPECT_EQ(general.size(), 16u * 8);
  EXPECT_EQ(narrow.size(), 16u * 4);
  EXPECT_EQ(narrowest.size(), 16u * 2);
  EXPECT_LE(*direct.rbegin() + 16, kSlabBytes);
  EXPECT_LE(*general.rbegin() + 16, kSlabBytes);
}

struct Launch {
  int m0, m1, n, band, clusters;
};

// Every half of every tile of every group is some item's, once.
TEST(Sm90TileOrder, covers_each_half_of_each_tile_once) {
  for (const Launch& l :
       {Launch{9, 0, 54, 8, 66}, {9, 0, 24, 8, 66}, {17, 18, 72, 8, 66}, {64, 0, 96, 16, 66}, {1, 0, 1, 8, 66}, {3, 1, 7, 2, 5}, {5, 5, 5, 64, 3}}) {
    for (const bool halves : {false, true}) {
      const TileOrder order = make_tile_order(l.m0, l.m1, l.n, l.band, l.clusters, halves);
      std::map<std::vector<int>, int> seen;
      for (int item = 0; item < order.items; ++item) {
        const Tile t = tile_of_item(order, item);
        ASSERT_LT(t.m_tile, order.m_tiles[t.group]);
        ASSERT_LT(t.n_tile, l.n);
        ASSERT_GE(t.n_tile, 0);
        for (int half = 0; half < 2; ++half) {
          if (t.half < 0 || t.half == half) ++seen[{t.group, t.m_tile, t.n_tile, half}];
        }
      }
      EXPECT_EQ(int(seen.size()), (l.m0 + l.m1) * l.n * 2);
      for (const auto& [tile, times] : seen) EXPECT_EQ(times, 1);
    }
  }
}

// o at M = 2304: 162 cluster tiles on 66 clusters are 2.45 waves. Whole tiles would take 3; the last 30 as 60 halves take 2.5.
TEST(Sm90TileOrder, last_wave_is_halved_when_it_fits_half_of_the_gpu) {
  const TileOrder order = make_tile_order(9, 0, 18, 8, 66, true);
  EXPECT_EQ(order.whole, 132);
  EXPECT_EQ(order.items, 132 + 60);
  EXPECT_EQ(make_tile_order(17, 0, 18, 8, 66, true).items, 17 * 18);  // 4.64 waves: 42 tiles as 84 halves would still be two half waves
}

TEST(Sm90TileOrder, bands_are_equal_within_one_tile) {
  EXPECT_EQ(make_tile_order(18, 0, 8, 16, 66, true).band[0], 18);  // not 16 + 2
  EXPECT_EQ(make_tile_order(34, 0, 8, 16, 66, true).band[0], 17);  // not 16 + 16 + 2
  EXPECT_EQ(make_tile_order(128, 0, 8, 16, 66, true).band[0], 16);
}

}  // namespace
}  // namespace octavo::sm90
