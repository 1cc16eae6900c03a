// The row kernels' addresses and rotation, replayed on the CPU: shared memory without bank conflicts, and the bits of the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "cuda/row/rotation.h"
#include "cuda/row/row.h"
#include "cuda/row/walk.h"
#include "quant/quantize.h"

namespace octavo::cuda {
namespace {

constexpr int kBanks = 32;
constexpr int kLanes = 32;

// Wavefronts that one access needs: lanes go in groups that move 128 bytes at once (32 lanes of 4 bytes, 8 of 16), and a bank
// gives one word each.
template <class Address>
int wavefronts(int words_per_lane, const Address& word_of_lane) {
  const int lanes_at_once = kLanes / words_per_lane;
  int worst = 0;
  for (int first = 0; first < kLanes; first += lanes_at_once) {
    std::map<int, std::set<int>> words_of_bank;
    for (int lane = first; lane < first + lanes_at_once; ++lane) {
      for (int i = 0; i < words_per_lane; ++i) words_of_bank[(word_of_lane(lane) + i) % kBanks].insert(word_of_lane(lane) + i);
    }
    for (const auto& [bank, words] : words_of_bank) worst = std::max(worst, int(words.size()));
  }
  return worst;
}

TEST(RowLayout, swizzle_is_a_permutation_within_128_words) {
  std::set<int> seen;
  for (int k = 0; k < 1024; ++k) {
    EXPECT_EQ(swizzle_word(k) / 128, k / 128);
    EXPECT_EQ(swizzle_word(k) % 4, k % 4) << "a 16-byte chunk stays whole";
    seen.insert(swizzle_word(k));
  }
  EXPECT_EQ(seen.size(), 1024u);
}

TEST(RowLayout, parameter_reads_have_no_bank_conflict_in_either_lane_order) {
  for (int i = 0; i < 16; i += 4) {
    EXPECT_EQ(wavefronts(4, [&](int lane) { return swizzle_word(16 * lane + i); }), 1) << "adjacent, value " << i;
    EXPECT_EQ(wavefronts(4, [&](int lane) { return swizzle_word(256 * (i / 8) + 8 * lane + i % 8); }), 1) << "halves, value " << i;
  }
}

TEST(RowLayout, exchange_writes_and_reads_have_no_bank_conflict) {
  for (int i = 0; i < kLaneValues; i += 4) EXPECT_EQ(wavefronts(4, [&](int lane) { return exchange_store_word(lane, i); }), 1);
  for (int r = 0; r < kLaneValues; ++r) EXPECT_EQ(wavefronts(1, [&](int lane) { return exchange_load_word(lane, r); }), 1);
}

TEST(RowLayout, code_bytes_have_no_bank_conflict) {
  for (int r = 0; r < kLaneValues; ++r) EXPECT_EQ(wavefronts(1, [&](int lane) { return exchange_byte(rotated_index(lane, r)) / 4; }), 1);
  EXPECT_EQ(wavefronts(4, [&](int lane) { return exchange_byte(kLaneValues * lane) / 4; }), 1);
}

TEST(RowLayout, what_a_lane_stores_is_what_another_loads) {
  std::set<int> words;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < kLaneValues; ++i) {
      EXPECT_EQ(exchange_store_word(lane, i & ~3) + (i & 3), exchange_word(kLaneValues * lane + i));
      EXPECT_EQ(exchange_load_word(lane, i), exchange_word(rotated_index(lane, i)));
      words.insert(exchange_word(kLaneValues * lane + i));
    }
  }
  EXPECT_EQ(words.size(), std::size_t(kSegment));
  EXPECT_LT(*words.rbegin(), kExchangeWords);
}

// The kernel's steps on 32 lanes of 16 registers.
std::vector<float> rotate_like_a_warp(const std::vector<float>& x, int group) {
  std::vector<float> shared(kExchangeWords, -1.0f);
  for (int lane = 0; lane < kLanes; ++lane) {
    float v[kLaneValues];
    std::copy_n(x.begin() + kLaneValues * lane, kLaneValues, v);
    rotate_registers<1>(v);
    if (group >= 16) rotate_registers<4>(v);
    for (int i = 0; i < kLaneValues; ++i) shared[std::size_t(exchange_store_word(lane, i & ~3) + (i & 3))] = v[i];
  }
  std::vector<float> y(x.size());
  for (int lane = 0; lane < kLanes; ++lane) {
    float v[kLaneValues];
    for (int r = 0; r < kLaneValues; ++r) v[r] = shared[std::size_t(exchange_load_word(lane, r))];
    if (group >= 64) rotate_registers<1>(v);
    if (group >= 256) rotate_registers<4>(v);
    for (int r = 0; r < kLaneValues; ++r) y[std::size_t(rotated_index(lane, r))] = v[r] / std::sqrt(float(group));
  }
  return y;
}

TEST(RowRotation, a_warp_gives_the_bits_of_the_definition) {
  std::mt19937_64 random(11);
  std::normal_distribution<float> gauss;
  for (const int group : {4, 16, 64, 256}) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<float> x(kSegment);
      // Magnitudes over 60 binary orders within a row: sums whose terms round away are where an order of operations shows.
      for (float& value : x) value = std::ldexp(gauss(random), int(random() % 60) - 30);
      std::vector<float> expected = x;
      rotate_row(expected.data(), kSegment, group);
      EXPECT_EQ(rotate_like_a_warp(x, group), expected) << "group " << group;
    }
  }
}

TEST(RowRing, chunks_stay_in_their_slot_and_meet_no_bank_conflict) {
  std::set<int> seen;
  for (int c = 0; c < 128; ++c) {
    EXPECT_EQ(swizzle_chunk(c) / 8, c / 8);
    EXPECT_EQ(swizzle_chunk(c + 64), swizzle_chunk(c) + 64) << "a segment on, an instruction on: a constant on";
    seen.insert(swizzle_chunk(c));
  }
  EXPECT_EQ(seen.size(), 128u);
  const auto read = [](int chunk_of_lane, int lanes_apart, const char* what) {
    EXPECT_EQ(wavefronts(4, [&](int lane) { return 4 * swizzle_chunk(lanes_apart * lane + chunk_of_lane); }), 1) << what << " " << chunk_of_lane;
  };
  read(0, 1, "fetch: neighbouring chunks");
  for (int i = 0; i < 2; ++i) read(i, 2, "16-bit, 16 adjacent values");
  for (int half = 0; half < 2; ++half) read(32 * half, 1, "16-bit, halves");
  for (int i = 0; i < 4; ++i) read(i, 4, "float32, 16 adjacent values");
  for (const int i : {0, 1, 64, 65}) read(i, 2, "float32, halves");
}

constexpr SharedLimits kH200{232448, 233472};
constexpr SharedLimits kRtx3090{101376, 102400};
constexpr SharedLimits kRtx2080{65536, 65536};

TEST(WalkPlan, rows_at_work_on_an_h200) {
  constexpr WalkBounds kNorm = kWalkBounds<3, kMaxTeams>;
  const WalkPlan norm = plan_walk(plan_row(4608), {1, 2, false}, kNorm, kH200);
  EXPECT_EQ(norm.warps, 3);
  EXPECT_EQ(norm.teams, 5);
  EXPECT_EQ(norm.depth, 3);
  EXPECT_EQ(norm.shared_bytes, 4 * 4608 + 5 * 256 + 5 * 3 * 2 * 4608);
  EXPECT_EQ(plan_walk(plan_row(4608), {2, 4, true}, kNorm, kH200).teams, 5);
  EXPECT_EQ(plan_walk(plan_row(12288), {1, 2, true}, kNorm, kH200).teams, 2);
  const WalkPlan widest = plan_walk(plan_row(12288), {2, 4, true}, kNorm, kH200);
  EXPECT_EQ(widest.teams, 2);
  EXPECT_EQ(widest.depth, 1);
  // One team a CTA: five CTAs of three warps.
  const WalkPlan silu = plan_walk(plan_row(4608), {0, 4, true}, kWalkBounds<3, 1>, kH200);
  EXPECT_EQ(silu.teams, 1);
  EXPECT_LE(5 * (silu.shared_bytes + kReservedShared), kH200.per_sm);
}

TEST(WalkPlan, never_more_than_there_is) {
  for (const SharedLimits limits : {kH200, kRtx3090, kRtx2080}) {
    for (const WalkBounds bounds : {kWalkBounds<1, kMaxTeams>, kWalkBounds<3, kMaxTeams>, kWalkBounds<1, 1>, kWalkBounds<3, 1>}) {
      for (std::int64_t columns = 16; columns <= 18432; columns += 16) {
        const RowPlan row = plan_row(columns);
        for (const int vectors : {0, 1, 2}) {
          for (const int ring_bytes : {2, 4, 8}) {
            for (const bool rotated : {false, true}) {
              const WalkPlan plan = plan_walk(row, {vectors, ring_bytes, rotated}, bounds, limits);
              if (plan.warps == 0) continue;
              ASSERT_EQ(plan.warps, row.warps);
              ASSERT_GE(plan.teams, 1);
              ASSERT_LE(plan.teams, bounds.most_teams);
              ASSERT_LE(plan.teams * plan.warps * kWarpLanes, bounds.threads);
              ASSERT_GE(plan.depth, 1);
              ASSERT_LE(plan.depth, kMaxDepth);
              ASSERT_LE(plan.shared_bytes, limits.per_cta);
              ASSERT_LE(plan.shared_bytes + kReservedShared, limits.per_sm);
              ASSERT_EQ(plan.shared_bytes % 16, 0);
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(plan_walk(plan_row(12288), {2, 8, true}, kWalkBounds<3, kMaxTeams>, kRtx2080).warps, 0) << "the general kernel's";
  EXPECT_EQ(plan_walk(plan_row(4610), {0, 2, false}, kWalkBounds<3, 1>, kH200).warps, 0);
}

TEST(RowPlan, rows_that_fit_registers) {
  EXPECT_EQ(plan_row(4608).warps, 3);
  EXPECT_EQ(plan_row(4608).segments_per_warp, 3);
  EXPECT_EQ(plan_row(12288).warps, 8);
  EXPECT_EQ(plan_row(12288).segments_per_warp, 3);
  EXPECT_EQ(plan_row(2048).warps, 4);
  EXPECT_EQ(plan_row(2048).segments_per_warp, 1);
  EXPECT_EQ(plan_row(18432).warps, 12);
  EXPECT_EQ(plan_row(16).warps, 1);
  EXPECT_EQ(plan_row(0).warps, 0);
  EXPECT_EQ(plan_row(4610).warps, 0) << "not a multiple of a lane's 16 values";
  EXPECT_EQ(plan_row(53248).warps, 0) << "does not fit registers";
  for (std::int64_t columns = 16; columns <= 18432; columns += 16) {
    const RowPlan plan = plan_row(columns);
    ASSERT_GT(plan.warps, 0);
    ASSERT_LE(plan.warps, kMaxRowWarps);
    ASSERT_GE(std::int64_t(plan.warps) * plan.segments_per_warp * kSegment, columns) << "every value has a lane";
  }
}

}  // namespace
}  // namespace octavo::cuda
