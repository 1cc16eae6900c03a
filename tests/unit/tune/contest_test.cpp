// The measuring plan against invented clocks: it must find the fastest, soon, and always in the same way.
#include "tune/contest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace octavo::tune {
namespace {

// Runs candidates whose true times are known; each timing is noisy, and the clock drifts.
struct InventedGpu {
  std::vector<double> seconds{};  // by candidate name: "0", "1", …
  double noise = 0.005;           // standard deviation of one timing, relative
  double drift_per_second = 0;    // relative slowdown
  std::mt19937_64 random{1};

  double elapsed = 0;
  int trials = 0;

  double time(const std::string& id, int repeats) {
    std::normal_distribution<double> gauss(0.0, noise);
    const double run = seconds[std::size_t(std::stoi(id))] * (1 + std::abs(gauss(random))) * (1 + drift_per_second * elapsed);
    elapsed += run * repeats;
    ++trials;
    return run;
  }
};

std::vector<Candidate> candidates_of(const std::vector<double>& estimates) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < estimates.size(); ++i) candidates.push_back({std::to_string(i), estimates[i]});
  return candidates;
}

std::vector<Result> run(InventedGpu& gpu, const std::vector<double>& estimates, const ContestOptions& options = {}) {
  Contest contest(candidates_of(estimates), options);
  while (const auto trial = contest.next()) contest.report(gpu.time(contest.candidates()[trial->candidate].id, trial->repeats));
  return contest.results();
}

TEST(Prune, keeps_the_best_estimates_up_to_the_limit) {
  const auto kept = prune(candidates_of({5, 3, 1, 1.5, 1.2, 1.1, 1.9, 2.1, 1.4, 1.3, 1.6}), {.max_candidates = 6});
  ASSERT_EQ(kept.size(), 6u);
  EXPECT_EQ(kept[0].id, "2");
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end(), [](const Candidate& a, const Candidate& b) { return a.estimate < b.estimate; }));
  EXPECT_EQ(kept.back().estimate, 1.5);
}

TEST(Prune, drops_hopeless_estimates_but_never_the_second) {
  EXPECT_EQ(prune(candidates_of({1, 1.9, 2.1, 9}), {}).size(), 2u);
  EXPECT_EQ(prune(candidates_of({1, 50}), {}).size(), 2u) << "a model that is wrong about everything must still be contradicted once";
  EXPECT_EQ(prune(candidates_of({1}), {}).size(), 1u);
  EXPECT_TRUE(prune({}, {}).empty());
}

TEST(Prune, equal_estimates_keep_their_order) {
  const auto kept = prune(candidates_of({1, 1, 1, 1}), {.max_candidates = 3});
  EXPECT_EQ(kept[0].id, "0");
  EXPECT_EQ(kept[2].id, "2");
}

TEST(Contest, nothing_to_measure_with_one_or_no_candidate) {
  EXPECT_FALSE(Contest(candidates_of({1e-3})).next().has_value());
  EXPECT_FALSE(Contest({}).next().has_value());
  const auto results = Contest(candidates_of({1e-3})).results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].runs, 0);
}

TEST(Contest, finds_the_fastest_against_the_estimate) {
  InventedGpu gpu{.seconds = {400e-6, 380e-6, 350e-6, 500e-6}};
  EXPECT_EQ(run(gpu, {300e-6, 310e-6, 320e-6, 330e-6})[0].id, "2");
}

TEST(Contest, hopeless_candidates_are_dropped_after_their_scout) {
  InventedGpu gpu{.seconds = {400e-6, 2000e-6, 410e-6}};
  const auto results = run(gpu, {1e-3, 1e-3, 1e-3});
  EXPECT_EQ(results.back().id, "1");
  EXPECT_TRUE(results.back().was_dropped);
  EXPECT_EQ(results.back().runs, 2);
}

TEST(Contest, every_survivor_has_enough_runs) {
  InventedGpu gpu{.seconds = {100e-6, 100.5e-6, 100.2e-6}};
  const ContestOptions options;
  for (const Result& result : run(gpu, {1e-4, 1e-4, 1e-4}, options)) {
    EXPECT_TRUE(result.was_dropped || result.runs >= options.min_runs || result.seconds * result.runs >= options.min_seconds) << result.id;
  }
}

TEST(Contest, a_slowing_clock_does_not_decide) {
  // 5 % slower per second of measuring, as a card that grows hot; the candidates differ by 1 %.
  for (int repeat = 0; repeat < 20; ++repeat) {
    InventedGpu gpu{.seconds = {303e-6, 300e-6}, .noise = 0.001, .drift_per_second = 0.05, .random = std::mt19937_64(std::uint64_t(repeat))};
    EXPECT_EQ(run(gpu, {300e-6, 303e-6})[0].id, "1") << repeat;
  }
}

TEST(Contest, regret_stays_under_two_percent) {
  // 36 problems as the issue measures them (B7): candidates within a factor of 2.5, estimates 15 % wrong (one standard deviation),
  // timings 0.7 % noisy. Regret: the winner's true time over the best true time of all candidates, pruned ones too.
  std::mt19937_64 random(2026);
  std::normal_distribution<double> gauss;
  std::uniform_real_distribution<double> uniform;
  double worst = 0;
  double sum = 0;
  constexpr int kProblems = 36;
  for (int problem = 0; problem < kProblems; ++problem) {
    InventedGpu gpu{.noise = 0.007, .random = std::mt19937_64(random())};
    std::vector<double> estimates;
    const double scale = std::exp2(uniform(random) * 7) * 10e-6;  // 10 µs to 1.3 ms
    for (int i = 0; i < 14; ++i) {
      gpu.seconds.push_back(scale * (1 + 1.5 * uniform(random)));
      estimates.push_back(gpu.seconds.back() * std::exp(0.15 * gauss(random)));
    }
    const double best = *std::min_element(gpu.seconds.begin(), gpu.seconds.end());
    const double regret = gpu.seconds[std::size_t(std::stoi(run(gpu, estimates)[0].id))] / best - 1;
    worst = std::max(worst, regret);
    sum += regret;
  }
  EXPECT_LE(sum / kProblems, 0.01);
  EXPECT_LE(worst, 0.02);
}

TEST(Contest, costs_less_than_half_a_second_a_problem) {
  // 16 shapes with eight close candidates must stay far under 20 s.
  for (const double scale : {10e-6, 100e-6, 500e-6, 2e-3}) {
    InventedGpu gpu;
    for (int i = 0; i < 8; ++i) gpu.seconds.push_back(scale * (1 + 0.01 * i));
    run(gpu, std::vector<double>(8, scale));
    EXPECT_LT(gpu.elapsed, 0.5) << scale;
  }
}

TEST(Contest, same_timings_same_decision) {
  const auto once = [] {
    InventedGpu gpu{.seconds = {1e-4, 1.01e-4, 1.02e-4, 1.03e-4}};
    return run(gpu, {1e-4, 1e-4, 1e-4, 1e-4});
  };
  const auto a = once();
  const auto b = once();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].id, b[i].id);
    EXPECT_EQ(a[i].seconds, b[i].seconds);
  }
}

TEST(Contest, first_trial_of_each_candidate_is_marked) {
  Contest contest(candidates_of({1e-4, 1e-4, 1e-4}));
  std::vector<int> seen(3, 0);
  while (const auto trial = contest.next()) {
    EXPECT_EQ(trial->is_first, seen[trial->candidate] == 0);
    ++seen[trial->candidate];
    EXPECT_GE(trial->repeats, 1);
    contest.report(1e-4);
  }
}

}  // namespace
}  // namespace octavo::tune
