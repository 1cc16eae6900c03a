// How the CTAs of a kernel that walks over rows share an SM. A team of warps has a row at a time; the teams of a CTA share its parameters.
//
//   shared memory of a CTA     parameter vectors, float32 [columns] each
//                              a reduction's scratch for each team
//                              for each warp: `depth` slots for its part of the rows to come, and if rotating an exchange buffer
#pragma once

#include "cuda/row/rotation.h"

namespace octavo::cuda {

inline constexpr int kMaxTeams = 8;           // each has a named barrier; there are 16
inline constexpr int kMaxDepth = 3;           // rows that a team fetches ahead
inline constexpr int kReservedShared = 1024;  // per CTA, by the driver
inline constexpr int kScratchBytes = 256;     // a reduction's scratch

// A kernel's __launch_bounds__: its registers allow that many CTAs of that many threads on an SM.
struct WalkBounds {
  int threads = 0;
  int ctas_per_sm = 1;
  int most_teams = 1;  // above 1 the kernel's RowReducer waits for teams; with 1, as many smaller CTAs fit as have those threads
};

// Of every walking kernel: 56 registers a thread for rows of one segment a warp, 128 for three.
template <int Segments, int MostTeams>
inline constexpr WalkBounds kWalkBounds = Segments == 1 ? WalkBounds{576, 2, MostTeams} : WalkBounds{512, 1, MostTeams};

// The second number for __launch_bounds__: sm_75 holds 1024 threads.
OCTAVO_HOST_DEVICE constexpr int ctas_per_sm(WalkBounds bounds) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  if (bounds.threads * bounds.ctas_per_sm > 1024) return 1024 / bounds.threads;
#endif
  return bounds.ctas_per_sm;
}

// What it keeps in shared memory.
struct WalkNeeds {
  int vectors = 0;     // of parameters
  int ring_bytes = 0;  // a value of a row to come, all operands together
  bool rotated = false;
};

// Bytes of shared memory of one GPU: what a CTA may have, what an SM holds.
struct SharedLimits {
  int per_cta = 0;
  int per_sm = 0;
};

struct WalkPlan {
  int warps = 0;  // of a team; 0: the row does not fit, take the general kernel
  int teams = 0;
  int depth = 0;
  int shared_bytes = 0;
};

// Words of a parameter vector: one for every value that a team's lanes hold, zeros beyond the last column.
OCTAVO_HOST_DEVICE int vector_words(int team_threads, int segments_per_warp) { return team_threads * kLaneValues * segments_per_warp; }

// As many rows at work on an SM as fit with one fetched ahead each; equals prefer fewer CTAs, which read the parameters less often. Then as far ahead as fits.
inline WalkPlan plan_walk(RowPlan row, WalkNeeds needs, WalkBounds bounds, SharedLimits limits) {
  WalkPlan best;
  if (row.warps == 0) return best;
  const int in_bounds = bounds.threads / kWarpLanes / row.warps;
  const int most_teams = in_bounds < bounds.most_teams ? in_bounds : bounds.most_teams;
  const int most_ctas = bounds.most_teams == 1 ? bounds.ctas_per_sm * in_bounds : bounds.ctas_per_sm;
  int best_rows = 0;
  for (int ctas = 1; ctas <= most_ctas; ++ctas) {
    const int in_sm = limits.per_sm / ctas - kReservedShared;
    const int budget = in_sm < limits.per_cta ? in_sm : limits.per_cta;
    for (int teams = 1; teams <= most_teams; ++teams) {
      const int warps = teams * row.warps;
      const int fixed =
          int(sizeof(float)) * (needs.vectors * vector_words(row.warps * kWarpLanes, row.segments_per_warp) + (needs.rotated ? warps * kExchangeWords : 0)) +
          teams * kScratchBytes;
      const int slots = warps * row.segments_per_warp * kSegment * needs.ring_bytes;
      const int room = budget - fixed;
      if (room < slots || ctas * teams <= best_rows) continue;
      best_rows = ctas * teams;
      const int depth = room / slots < kMaxDepth ? room / slots : kMaxDepth;
      best = {row.warps, teams, depth, fixed + depth * slots};
    }
  }
  return best;
}

// The 16-byte chunk of a slot where chunk c of a warp's part lies: lanes that read 1, 2 or 4 neighbouring chunks meet different banks, as with swizzle_word.
OCTAVO_HOST_DEVICE int swizzle_chunk(int c) { return c ^ ((c >> 3) & 3); }

}  // namespace octavo::cuda
