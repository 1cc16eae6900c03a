// Shared-memory addresses of the INT8 GEMM, counted bank by bank. Shared memory serves 128 bytes, one word from each of 32 banks, per
// pass; 16-byte accesses go eight lanes at a time. An access is free of conflicts when its eight lanes meet all eight groups of four banks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "cuda/fragment_lanes.h"
#include "cuda/swizzle.h"

namespace octavo {
namespace {

using cuda::kBankBytes;
using cuda::kChunkBytes;
using cuda::swizzled_offset;

constexpr int kLanes = 32;
constexpr int kLanesPerPass = 8;

// The most passes that any eight lanes of a 16-byte access need; 1 is free of conflicts.
int passes(const std::function<int(int)>& address_of_lane) {
  int worst = 0;
  for (int first = 0; first < kLanes; first += kLanesPerPass) {
    std::array<std::set<int>, kBankBytes / kChunkBytes> lines;  // of each bank group, which 128-byte lines are asked for
    for (int lane = first; lane < first + kLanesPerPass; ++lane) {
      const int address = address_of_lane(lane);
      lines[std::size_t(address % kBankBytes / kChunkBytes)].insert(address / kBankBytes);
    }
    for (const auto& set : lines) worst = std::max(worst, int(set.size()));
  }
  return worst;
}

template <class T>
class RowBytes : public ::testing::Test {};
using RowLengths = ::testing::Types<std::integral_constant<int, 64>, std::integral_constant<int, 128>, std::integral_constant<int, 256>>;
TYPED_TEST_SUITE(RowBytes, RowLengths);

TYPED_TEST(RowBytes, swizzle_keeps_every_chunk_of_its_row) {
  constexpr int kRow = TypeParam::value;
  for (int row = 0; row < 64; ++row) {
    std::set<int> places;
    for (int chunk = 0; chunk < kRow / kChunkBytes; ++chunk) {
      const int at = swizzled_offset<kRow>(row, chunk);
      EXPECT_GE(at, row * kRow);
      EXPECT_LT(at, (row + 1) * kRow);
      EXPECT_EQ(at % kChunkBytes, 0);
      places.insert(at);
    }
    EXPECT_EQ(int(places.size()), kRow / kChunkBytes);
  }
}

TYPED_TEST(RowBytes, fragment_loads_meet_no_bank_twice) {
  constexpr int kRow = TypeParam::value;
  for (int block = 0; block < 256; block += 16) {
    for (int step = 0; step < kRow / 32; ++step) {
      EXPECT_EQ(passes([&](int lane) { return swizzled_offset<kRow>(block + cuda::a_lane_row(lane), 2 * step + cuda::a_lane_chunk(lane)); }), 1)
          << "x rows " << block << " step " << step;
      EXPECT_EQ(passes([&](int lane) { return swizzled_offset<kRow>(block + cuda::b_lane_row(lane), 2 * step + cuda::b_lane_chunk(lane)); }), 1)
          << "w rows " << block << " step " << step;
    }
  }
}

// The kernel reaches the chunks of step s from those of step 0 by flipping address bits.
TYPED_TEST(RowBytes, steps_are_one_exclusive_or_apart) {
  constexpr int kRow = TypeParam::value;
  for (int row = 0; row < 64; ++row) {
    for (int step = 0; step < kRow / 32; ++step) {
      for (int half = 0; half < 2; ++half) EXPECT_EQ(swizzled_offset<kRow>(row, 2 * step + half), swizzled_offset<kRow>(row, half) ^ (step * 32));
    }
  }
}

// Copies: consecutive threads write consecutive chunks of a row, then the next row.
TYPED_TEST(RowBytes, copies_write_no_bank_twice) {
  constexpr int kRow = TypeParam::value;
  constexpr int kChunks = kRow / kChunkBytes;
  for (int first = 0; first < 1024; first += kLanes) {
    EXPECT_EQ(passes([&](int lane) { return swizzled_offset<kRow>((first + lane) / kChunks, (first + lane) % kChunks); }), 1) << "thread " << first;
  }
}

TEST(Passes, count_what_a_plain_layout_costs) {
  // Without the swizzle, eight rows of 128 bytes at one chunk meet one bank group eight times: the counter can see a conflict.
  EXPECT_EQ(passes([](int lane) { return lane % 16 * 128 + lane / 16 * 16; }), 8);
}

}  // namespace
}  // namespace octavo
