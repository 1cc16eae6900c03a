// Which of several equal kernels is fastest: a plan of short timings that drops the clearly slower early and looks twice at the last two.
//
//   prune     by estimate: at most `max_candidates`, none estimated slower than `prune_ratio` times the best
//   scout     each once; then rounds over all that are left, dropping whoever's best time is too far behind; until each has enough runs
//   final     the two with the lowest medians as A B B A, which cancels a drift of the clock; the lower median there wins
//
// The contest runs nothing itself: next() says what to time, report() takes the answer. So it is tested with an invented clock.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace octavo::tune {

struct Candidate {
  std::string id{};
  double estimate = 0;  // seconds
};

struct ContestOptions {
  int max_candidates = 8;
  double prune_ratio = 2.0;                                 // estimates are good to some 20 % each; twice the best is out of reach
  double slice_seconds = 2e-3;                              // length of one timing
  int min_runs = 20;                                        // enough for a median …
  double min_seconds = 30e-3;                               // … or this much time, whichever comes first
  int final_rounds = 4;                                     // A B B A each
  std::vector<double> drop_behind{0.25, 0.10, 0.05, 0.03};  // after the scout, round 1, round 2, …; the last repeats
};

// The candidates worth timing, fastest estimate first. Never fewer than two if there are two.
std::vector<Candidate> prune(std::vector<Candidate> candidates, const ContestOptions& options);

struct Trial {
  std::size_t candidate = 0;  // index into candidates()
  int repeats = 1;            // runs to time together
  bool is_first = false;      // of this candidate: load its code before the clock starts
};

struct Result {
  std::string id{};
  double seconds = 0;  // median of the timings, each the mean of its runs
  double best = 0;
  int runs = 0;
  bool was_dropped = false;
};

class Contest {
 public:
  explicit Contest(std::vector<Candidate> candidates, ContestOptions options = {});

  const std::vector<Candidate>& candidates() const { return candidates_; }
  // Empty when the contest is decided; at once with fewer than two candidates.
  std::optional<Trial> next();
  // Seconds per run of the trial that next() gave last.
  void report(double seconds_per_run);
  // Fastest first; the first is the winner. Candidates that were never timed have 0 runs and their estimate as seconds.
  std::vector<Result> results() const;

 private:
  struct Record {
    std::vector<double> timings{};
    std::vector<double> final_timings{};
    double total = 0;
    int runs = 0;
    bool is_out = false;
  };

  bool needs_more(const Record& record) const;
  void end_round();
  void start_final();
  int repeats_for(std::size_t candidate) const;

  ContestOptions options_;
  std::vector<Candidate> candidates_;
  std::vector<Record> records_;
  std::vector<std::size_t> queue_{};  // trials of this round, last first
  std::size_t current_ = 0;
  int current_repeats_ = 0;
  int round_ = 0;
  bool is_final_ = false;
  bool is_decided_ = false;
};

}  // namespace octavo::tune
