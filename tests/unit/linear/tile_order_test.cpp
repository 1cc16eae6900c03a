// The order of tiles: complete, and kind to a small L2 cache.
#include "ops/linear/device/tile_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <set>
#include <tuple>
#include <unordered_map>

namespace octavo {
namespace {

using device::best_raster_group;
using device::locate_tile;
using device::TilePosition;

TEST(TileOrder, every_tile_exactly_once) {
  for (const auto& [m0, m1, n, group] : {std::tuple{1, 0, 1, 1}, {7, 0, 5, 3}, {32, 36, 18, 8}, {0, 4, 3, 2}, {5, 1, 9, 16}, {13, 13, 1, 4}, {3, 0, 100, 3}}) {
    std::set<std::tuple<int, int, int>> seen;
    for (int id = 0; id < (m0 + m1) * n; ++id) {
      const TilePosition at = locate_tile(id, m0, m1, n, group);
      EXPECT_GE(at.m_tile, 0);
      EXPECT_LT(at.m_tile, at.group == 0 ? m0 : m1);
      EXPECT_GE(at.n_tile, 0);
      EXPECT_LT(at.n_tile, n);
      EXPECT_TRUE(seen.insert({at.group, at.m_tile, at.n_tile}).second) << "tile " << id << " of " << m0 << "+" << m1 << " x " << n << ", groups of " << group;
    }
  }
}

TEST(TileOrder, one_problem_after_the_other) {
  for (int id = 0; id < 20; ++id) EXPECT_EQ(locate_tile(id, 2, 3, 4, 2).group, id < 8 ? 0 : 1);
}

TEST(TileOrder, divides_as_division_does) {
  for (const int d : {1, 2, 3, 5, 7, 12, 54, 1000, 65535, 65536, 65537, 1 << 30, (1 << 30) + 1, 2147483647}) {
    const device::Divider by = device::divider_of(d);
    for (const std::int64_t near : {std::int64_t{0}, std::int64_t{d}, std::int64_t{2} * d, std::int64_t{2147483647} / d * d, std::int64_t{2147483647}}) {
      for (std::int64_t n = near - 2; n <= near + 2; ++n) {
        if (n < 0 || n > 2147483647) continue;
        EXPECT_EQ(device::quotient(int(n), by), n / d) << n << " / " << d;
      }
    }
  }
}

TEST(TileOrder, kernels_find_the_same_tiles) {
  for (const auto& [m0, m1, n, group] :
       {std::tuple{1, 0, 1, 1}, {7, 0, 5, 3}, {32, 36, 18, 8}, {0, 4, 3, 2}, {5, 1, 9, 16}, {13, 13, 1, 4}, {3, 0, 100, 300}}) {
    const device::TileOrder order = device::tile_order_of(m0, m1, n, group);
    for (int id = 0; id < (m0 + m1) * n; ++id) {
      const TilePosition want = locate_tile(id, m0, m1, n, group);
      const TilePosition at = locate_tile(id, order);
      EXPECT_EQ(std::tuple(at.group, at.m_tile, at.n_tile), std::tuple(want.group, want.m_tile, want.n_tile)) << "tile " << id;
    }
  }
}

TEST(BestRasterGroup, is_the_rounded_root) {
  EXPECT_EQ(best_raster_group(132, 128, 256, 1000), 16);  // sqrt(264) = 16.2
  EXPECT_EQ(best_raster_group(82, 128, 256, 1000), 13);   // sqrt(164) = 12.8
  EXPECT_EQ(best_raster_group(82, 256, 128, 1000), 6);    // sqrt(41) = 6.4
  EXPECT_EQ(best_raster_group(132, 128, 256, 5), 5);      // no more groups than rows of tiles
  EXPECT_EQ(best_raster_group(1, 256, 16, 10), 1);
}

// A cache of `capacity` bytes that forgets what was used longest ago; counts the bytes it had to fetch.
class Lru {
 public:
  explicit Lru(std::int64_t capacity) : capacity_(capacity) {}
  void touch(std::int64_t key, std::int64_t bytes) {
    if (const auto found = where_.find(key); found != where_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return;
    }
    fetched_ += bytes;
    used_ += bytes;
    order_.push_front({key, bytes});
    where_[key] = order_.begin();
    while (used_ > capacity_) {
      used_ -= order_.back().second;
      where_.erase(order_.back().first);
      order_.pop_back();
    }
  }
  std::int64_t fetched() const { return fetched_; }

 private:
  std::int64_t capacity_;
  std::int64_t used_ = 0;
  std::int64_t fetched_ = 0;
  std::list<std::pair<std::int64_t, std::int64_t>> order_{};
  std::unordered_map<std::int64_t, std::list<std::pair<std::int64_t, std::int64_t>>::iterator> where_{};
};

// DRAM bytes of an RTX 3090 (82 SMs, 6 MB of L2) for x [M, K] · w [N, K], 128 × 256 tiles, waves in step, slices of 256 bytes.
std::int64_t dram_bytes(std::int64_t m, std::int64_t n, std::int64_t k, int raster_group) {
  constexpr int kSms = 82, kTileM = 128, kTileN = 256, kSlice = 256;
  Lru cache(6 << 20);
  const int tiles_m = int((m + kTileM - 1) / kTileM);
  const int tiles_n = int((n + kTileN - 1) / kTileN);
  const int slices = int((k + kSlice - 1) / kSlice);
  for (int wave = 0; wave < tiles_m * tiles_n; wave += kSms) {
    for (int slice = 0; slice < slices; ++slice) {
      for (int id = wave; id < std::min(wave + kSms, tiles_m * tiles_n); ++id) {
        const TilePosition at = locate_tile(id, tiles_m, 0, tiles_n, raster_group);
        cache.touch((std::int64_t(at.m_tile) * slices + slice) * 2, kTileM * kSlice);
        cache.touch((std::int64_t(at.n_tile) * slices + slice) * 2 + 1, kTileN * kSlice);
      }
    }
  }
  return cache.fetched() + m * n * 2;  // bf16 results
}

// 75 % of 284.7 TOPS is what the design expects of this card; its memory gives 936 GB/s. 300 GB/s leaves the kernel bound by the tensor cores.
TEST(TileOrder, small_l2_keeps_dram_traffic_below_300_GB_per_second) {
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{13824, 4608}, {4608, 4608}, {24576, 4608}, {4608, 12288}}) {
    const std::int64_t m = 4608;
    const double seconds = 2.0 * double(m) * double(n) * double(k) / (0.75 * 284.7e12);
    const int group = best_raster_group(82, 128, 256, int(m / 128));
    EXPECT_LT(double(dram_bytes(m, n, k, group)) / seconds, 300e9) << "N " << n << " K " << k;
  }
}

TEST(TileOrder, grouping_beats_row_after_row) {
  const std::int64_t grouped = dram_bytes(4608, 13824, 4608, best_raster_group(82, 128, 256, 36));
  EXPECT_LT(double(grouped), 0.6 * double(dram_bytes(4608, 13824, 4608, 1)));
}

}  // namespace
}  // namespace octavo
