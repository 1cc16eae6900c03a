// Every mma.sync tile of the catalogue, with its own sizes: which shared-memory addresses its warps touch at once. address_test.cpp shows the
// same of the formulas for each length of row; here no tile can be forgotten.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "cuda/fragment_lanes.h"
#include "cuda/swizzle.h"
#include "ops/linear/catalog.h"

namespace octavo {
namespace {

using cuda::kBankBytes;
using cuda::kChunkBytes;

constexpr int kLanes = 32;
constexpr int kStepBytes = 32;

int offset_of(bool is_x, int row_bytes, int row, int chunk) {
  switch (row_bytes) {
    case 64:
      return is_x ? cuda::swizzled_offset<64>(row, chunk) : cuda::w_swizzled_offset<64>(row, chunk);
    case 128:
      return is_x ? cuda::swizzled_offset<128>(row, chunk) : cuda::w_swizzled_offset<128>(row, chunk);
    case 256:
      return is_x ? cuda::swizzled_offset<256>(row, chunk) : cuda::w_swizzled_offset<256>(row, chunk);
    default:
      ADD_FAILURE() << "rows of " << row_bytes << " bytes: their swizzle is not tested";
      return 0;
  }
}

// 16-byte accesses go eight lanes at a time: conflict-free when the eight meet all eight groups of four banks.
template <class AddressOfLane>
bool is_free_of_conflicts(const AddressOfLane& address_of_lane) {
  for (int first = 0; first < kLanes; first += 8) {
    std::set<int> groups;
    for (int lane = first; lane < first + 8; ++lane) groups.insert(address_of_lane(lane) % kBankBytes / kChunkBytes);
    if (groups.size() != 8) return false;
  }
  return true;
}

TEST(LinearCatalogAddresses, every_mma_tile_loads_and_copies_without_conflicts) {
  int tiles = 0;
  for (const GemmKernel& kernel : gemm_catalog()) {
    if (kernel.family != "mma_sm80" && kernel.family != "mma_sm75") continue;
    ++tiles;
    SCOPED_TRACE(std::string(kernel.id));
    const GemmConfig& c = kernel.config;
    const int k = c.tile_k;
    const int slice_x = c.tile_m * k;
    // Whole 128-byte lines before every part: a part's own offset decides the banks alone.
    ASSERT_EQ(slice_x % kBankBytes, 0);
    ASSERT_EQ((c.tile_m + c.tile_n) * k % kBankBytes, 0);
    const auto all_steps = [&](int rows, int warps, bool is_x) {
      for (int block = 0; block < rows / 16; ++block) {
        ASSERT_EQ(rows / warps % (is_x ? 16 : cuda::kGroupRows), 0);  // a warp's part is whole blocks of x, whole groups of w
        const int row = is_x ? 16 * block : cuda::b_pair_row(block);
        for (int step = 0; step < k / kStepBytes; ++step) {
          EXPECT_TRUE(is_free_of_conflicts([&](int lane) {
            const int lane_row = is_x ? cuda::a_lane_row(lane) : cuda::b_lane_row(lane);
            const int lane_chunk = is_x ? cuda::a_lane_chunk(lane) : cuda::b_lane_chunk(lane);
            return (offset_of(is_x, k, lane_row, lane_chunk) ^ (step * kStepBytes)) + row * k;
          })) << (is_x ? "x" : "w")
              << " rows " << row << " step " << step;
        }
      }
    };
    all_steps(c.tile_m, c.warps_m, true);
    all_steps(c.tile_n, c.warps_n, false);

    const int threads = 32 * c.warps_m * c.warps_n * c.warps_k;
    const int chunks = k / kChunkBytes;
    for (int warp = 0; warp < threads / kLanes; ++warp) {
      for (const bool is_x : {true, false}) {
        EXPECT_TRUE(is_free_of_conflicts([&](int lane) { return offset_of(is_x, k, (warp * kLanes + lane) / chunks, (warp * kLanes + lane) % chunks); }))
            << "copies of warp " << warp;
      }
    }
    EXPECT_EQ(threads / chunks % 8, 0) << "a thread's later copies have the first one's swizzle";
  }
  EXPECT_GE(tiles, 8);
}

}  // namespace
}  // namespace octavo
