// Timings taken in turns, and the few statistics that a row shows.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace octavo {

struct Spread {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
};

inline Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) { return values[std::size_t(share * double(values.size() - 1) + 0.5)]; };
  return {at(0.5), at(0.1), at(0.9)};
}

// Something to time: `time(repeats)` gives seconds per run.
struct Entrant {
  std::string name{};
  std::function<double(int repeats)> time{};
  std::vector<double> timings{};

  Spread spread() const { return spread_of(timings); }
};

// Every entrant once a round, forwards and backwards in turn (A B B A …), each timing about `slice_seconds` long.
inline void time_in_turns(std::vector<Entrant>& entrants, int rounds, double slice_seconds) {
  constexpr int kMostRepeats = 100;
  std::vector<int> repeats;
  for (Entrant& entrant : entrants) {
    entrant.time(1);  // loads code; not counted
    repeats.push_back(std::clamp(int(slice_seconds / std::max(entrant.time(3), 1e-7)), 1, kMostRepeats));
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < entrants.size(); ++i) {
      const std::size_t turn = round % 2 == 0 ? i : entrants.size() - 1 - i;
      entrants[turn].timings.push_back(entrants[turn].time(repeats[turn]));
    }
  }
}

}  // namespace octavo
