// Shared-memory addresses of the INT8 GEMM and of attention, counted bank by bank. Shared memory serves 128 bytes, one word from each of 32 banks, per
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
using cuda::w_swizzled_offset;

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
using RowLengths =
    ::testing::Types<std::integral_constant<int, 64>, std::integral_constant<int, 128>, std::integral_constant<int, 256>, std::integral_constant<int, 512>>;
TYPED_TEST_SUITE(RowBytes, RowLengths);

TYPED_TEST(RowBytes, swizzle_keeps_every_chunk_of_its_row) {
  constexpr int kRow = TypeParam::value;
  for (int row = 0; row < 64; ++row) {
    for (const auto offset : {&swizzled_offset<kRow>, &w_swizzled_offset<kRow>}) {
      std::set<int> places;
      for (int chunk = 0; chunk < kRow / kChunkBytes; ++chunk) {
        const int at = offset(row, chunk);
        EXPECT_GE(at, row * kRow);
        EXPECT_LT(at, (row + 1) * kRow);
        EXPECT_EQ(at % kChunkBytes, 0);
        places.insert(at);
      }
      EXPECT_EQ(int(places.size()), kRow / kChunkBytes);
    }
  }
}

TYPED_TEST(RowBytes, fragment_loads_meet_no_bank_twice) {
  constexpr int kRow = TypeParam::value;
  for (int block = 0; block < 256; block += 16) {
    for (int step = 0; step < kRow / 32; ++step) {
      EXPECT_EQ(passes([&](int lane) { return swizzled_offset<kRow>(block + cuda::a_lane_row(lane), 2 * step + cuda::a_lane_chunk(lane)); }), 1)
          << "x rows " << block << " step " << step;
    }
  }
  for (int pair = 0; pair < 16; ++pair) {
    const int row = cuda::b_pair_row(pair);
    for (int step = 0; step < kRow / 32; ++step) {
      EXPECT_EQ(passes([&](int lane) { return w_swizzled_offset<kRow>(row + cuda::b_lane_row(lane), 2 * step + cuda::b_lane_chunk(lane)); }), 1)
          << "w pair " << pair << " step " << step;
    }
    // The kernel adds a pair's rows to the address of pair 0.
    for (int lane = 0; lane < kLanes; ++lane) {
      const int chunk = cuda::b_lane_chunk(lane);
      EXPECT_EQ(w_swizzled_offset<kRow>(row + cuda::b_lane_row(lane), chunk), w_swizzled_offset<kRow>(cuda::b_lane_row(lane), chunk) + row * kRow);
    }
  }
}

// store_epilogue.cuh: lane t of a row's four holds columns 8t … 8t + 7 of a group of 32, columns 2t and 2t + 1 of each of its four n8 blocks.
TEST(WRows, a_lane_of_a_row_holds_eight_neighbours) {
  for (int block = 0; block < 8; ++block) {
    for (int column = 0; column < 8; ++column) {
      const int lane = block % 2 * 16 + column;  // names the row of w that becomes this column: fragment_lanes.h
      const int t = column / 2;
      EXPECT_EQ(cuda::b_pair_row(block / 2) + cuda::b_lane_row(lane), block / 4 * cuda::kGroupRows + 8 * t + block % 4 * 2 + column % 2);
    }
  }
}

// The kernel reaches the chunks of step s from those of step 0 by flipping address bits.
TYPED_TEST(RowBytes, steps_are_one_exclusive_or_apart) {
  constexpr int kRow = TypeParam::value;
  for (int row = 0; row < 64; ++row) {
    for (int step = 0; step < kRow / 32; ++step) {
      for (int half = 0; half < 2; ++half) {
        EXPECT_EQ(swizzled_offset<kRow>(row, 2 * step + half), swizzled_offset<kRow>(row, half) ^ (step * 32));
        EXPECT_EQ(w_swizzled_offset<kRow>(row, 2 * step + half), w_swizzled_offset<kRow>(row, half) ^ (step * 32));
      }
    }
  }
}

// Copies: consecutive threads write consecutive chunks of a row, then the next row.
TYPED_TEST(RowBytes, copies_write_no_bank_twice) {
  constexpr int kRow = TypeParam::value;
  constexpr int kChunks = kRow / kChunkBytes;
  for (int first = 0; first < 1024; first += kLanes) {
    EXPECT_EQ(passes([&](int lane) { return swizzled_offset<kRow>((first + lane) / kChunks, (first + lane) % kChunks); }), 1) << "thread " << first;
    EXPECT_EQ(passes([&](int lane) { return w_swizzled_offset<kRow>((first + lane) / kChunks, (first + lane) % kChunks); }), 1) << "thread " << first;
  }
}

// A thread's later copies of w: the first one's address, an exclusive or of the swizzle, whole rows added.
TYPED_TEST(RowBytes, passes_over_w_differ_by_an_exclusive_or) {
  constexpr int kRow = TypeParam::value;
  for (const int rows_per_pass : {8, 16, 32, 64}) {
    for (int row = 0; row < rows_per_pass; ++row) {
      for (int first = 0; first < 256; first += rows_per_pass) {
        const int flip = cuda::w_swizzle<kRow>(first) * kChunkBytes;
        EXPECT_EQ(w_swizzled_offset<kRow>(first + row, 1), (w_swizzled_offset<kRow>(row, 1) ^ flip) + first * kRow);
      }
    }
  }
}

// Attention (device/attention_mma.cuh): rows of head_dim 16-bit numbers, 64 keys and as many values a tile, 16 queries a warp.
constexpr int kKeys = 64;

template <class T>
class HeadDim : public ::testing::Test {};
using HeadDims = ::testing::Types<std::integral_constant<int, 64>, std::integral_constant<int, 128>, std::integral_constant<int, 256>>;
TYPED_TEST_SUITE(HeadDim, HeadDims);

// A lane steps along its row by flipping address bits and to other rows by adding whole rows, as the kernel does.
TYPED_TEST(HeadDim, attention_fragments_meet_no_bank_twice) {
  constexpr int kRow = TypeParam::value * 2;
  for (int k = 0; k < TypeParam::value / 16; ++k) {
    const int along = 2 * k * kChunkBytes;
    for (int row = 0; row < kKeys; row += 16) {
      const auto q_or_v = [&](int lane) { return (swizzled_offset<kRow>(lane % 16, lane / 16) ^ along) + row * kRow; };
      const auto keys = [&](int lane) { return (swizzled_offset<kRow>(lane % 8 + lane / 16 * 8, lane / 8 % 2) ^ along) + row * kRow; };
      EXPECT_EQ(passes(q_or_v), 1) << "queries or values, rows " << row << " step " << k;
      EXPECT_EQ(passes(keys), 1) << "keys, rows " << row << " step " << k;
      for (int lane = 0; lane < kLanes; ++lane) {
        EXPECT_EQ(q_or_v(lane), swizzled_offset<kRow>(row + lane % 16, 2 * k + lane / 16));
        EXPECT_EQ(keys(lane), swizzled_offset<kRow>(row + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
      }
    }
  }
}

// cp.async: consecutive threads take the chunks of a row, then the next row.
TYPED_TEST(HeadDim, attention_copies_write_no_bank_twice) {
  constexpr int kRow = TypeParam::value * 2;
  constexpr int kChunks = kRow / kChunkBytes;
  for (int first = 0; first < kKeys * kChunks; first += kLanes) {
    EXPECT_EQ(passes([&](int lane) { return swizzled_offset<kRow>((first + lane) / kChunks, (first + lane) % kChunks); }), 1) << "chunk " << first;
  }
}

// The way out, in the place of the queries: words of eight rows and four columns pairs go in, whole chunks come out.
TYPED_TEST(HeadDim, attention_results_turn_around_without_conflicts) {
  constexpr int kRow = TypeParam::value * 2;
  constexpr int kChunks = kRow / kChunkBytes;
  for (int first_row = 0; first_row < 128; first_row += 8) {
    for (int d = 0; d < TypeParam::value / 8; ++d) {
      std::set<int> banks;
      for (int lane = 0; lane < kLanes; ++lane) banks.insert((swizzled_offset<kRow>(first_row + lane / 4, d) + lane % 4 * 4) % kBankBytes / 4);
      EXPECT_EQ(int(banks.size()), kLanes) << "rows " << first_row << " block " << d;
    }
  }
  for (int first = 0; first < 16 * kChunks; first += kLanes) {
    EXPECT_EQ(passes([&](int lane) { return swizzled_offset<kRow>((first + lane) / kChunks, (first + lane) % kChunks); }), 1) << "chunk " << first;
  }
}

TEST(Passes, count_what_a_plain_layout_costs) {
  // Without the swizzle, eight rows of 128 bytes at one chunk meet one bank group eight times: the counter can see a conflict.
  EXPECT_EQ(passes([](int lane) { return lane % 16 * 128 + lane / 16 * 16; }), 8);
}

}  // namespace
}  // namespace octavo
