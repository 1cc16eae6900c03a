#include "tune/contest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace octavo::tune {
namespace {

double median(std::vector<double> values) {
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(middle), values.end());
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  return 0.5 * (upper + *std::max_element(values.begin(), values.begin() + std::ptrdiff_t(middle)));
}

double lowest(const std::vector<double>& values) {
  return values.empty() ? std::numeric_limits<double>::infinity() : *std::min_element(values.begin(), values.end());
}

}  // namespace

std::vector<Candidate> prune(std::vector<Candidate> candidates, const ContestOptions& options) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.estimate < b.estimate; });
  std::size_t kept = std::min(candidates.size(), std::size_t(std::max(options.max_candidates, 2)));
  while (kept > 2 && candidates[kept - 1].estimate > options.prune_ratio * candidates.front().estimate) --kept;
  candidates.resize(kept);
  return candidates;
}

Contest::Contest(std::vector<Candidate> candidates, ContestOptions options)
    : options_(std::move(options)), candidates_(prune(std::move(candidates), options_)), records_(candidates_.size()), is_decided_(candidates_.size() < 2) {
  for (std::size_t i = candidates_.size(); i > 0; --i) queue_.push_back(i - 1);
}

int Contest::repeats_for(std::size_t candidate) const {
  const Record& record = records_[candidate];
  if (record.timings.empty()) return 2;  // the scout: long enough to tell 25 %, short where a candidate is hopeless
  constexpr int kMost = 200;
  return std::clamp(int(std::lround(options_.slice_seconds / std::max(lowest(record.timings), 1e-7))), 1, kMost);
}

bool Contest::needs_more(const Record& record) const { return record.runs < options_.min_runs && record.total < options_.min_seconds; }

void Contest::end_round() {
  double best = std::numeric_limits<double>::infinity();
  for (const Record& record : records_) best = std::min(best, lowest(record.timings));
  const double behind = options_.drop_behind[std::min(std::size_t(round_), options_.drop_behind.size() - 1)];
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (lowest(records_[i].timings) > (1 + behind) * best) records_[i].is_out = true;
    if (!records_[i].is_out) left.push_back(i);
  }
  ++round_;
  if (left.size() == 1 && !needs_more(records_[left.front()])) {
    is_decided_ = true;
    return;
  }
  const bool is_enough = std::none_of(left.begin(), left.end(), [&](std::size_t i) { return needs_more(records_[i]); });
  if (is_enough) return start_final();
  // Forwards and backwards in turn, so that nobody always follows the same neighbour.
  queue_ = left;
  if (round_ % 2 == 0) std::reverse(queue_.begin(), queue_.end());
}

void Contest::start_final() {
  is_final_ = true;
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (!records_[i].is_out) left.push_back(i);
  }
  std::stable_sort(left.begin(), left.end(), [&](std::size_t a, std::size_t b) { return median(records_[a].timings) < median(records_[b].timings); });
  for (int i = 0; i < options_.final_rounds; ++i) {
    for (const std::size_t side : {0, 1, 1, 0}) queue_.push_back(left[side]);
  }
}

std::optional<Trial> Contest::next() {
  if (is_decided_) return std::nullopt;
  current_ = queue_.back();
  queue_.pop_back();
  current_repeats_ = repeats_for(current_);
  return Trial{.candidate = current_, .repeats = current_repeats_, .is_first = records_[current_].timings.empty()};
}

void Contest::report(double seconds_per_run) {
  Record& record = records_[current_];
  (is_final_ ? record.final_timings : record.timings).push_back(seconds_per_run);
  record.runs += current_repeats_;
  record.total += seconds_per_run * current_repeats_;
  if (!queue_.empty()) return;
  if (is_final_) {
    is_decided_ = true;
  } else {
    end_round();
  }
}

std::vector<Result> Contest::results() const {
  // Finalists by their final timings, then those that stayed, then those that were dropped, then those never timed.
  struct Ranked {
    int rank = 0;
    double order = 0;
    Result result{};
  };
  std::vector<Ranked> ranked;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Record& record = records_[i];
    const bool was_timed = !record.timings.empty();
    std::vector<double> all = record.timings;
    all.insert(all.end(), record.final_timings.begin(), record.final_timings.end());
    const double seconds = was_timed ? median(all) : candidates_[i].estimate;
    const int rank = !record.final_timings.empty() ? 0 : was_timed && !record.is_out ? 1 : was_timed ? 2 : 3;
    ranked.push_back({rank,
                      rank == 0 ? median(record.final_timings) : seconds,
                      {.id = candidates_[i].id,
                       .seconds = rank == 0 ? median(record.final_timings) : seconds,
                       .best = was_timed ? lowest(all) : 0,
                       .runs = record.runs,
                       .was_dropped = record.is_out}});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.rank != b.rank ? a.rank < b.rank : a.order < b.order; });
  std::vector<Result> results;
  for (Ranked& entry : ranked) results.push_back(std::move(entry.result));
  return results;
}

}  // namespace octavo::tune
