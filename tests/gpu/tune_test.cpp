// The tuner on a GPU: it chooses, remembers, and never changes a bit.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "gpu/gpu_test.h"
#include "ops/linear/catalog.h"
#include "ops/linear/choose.h"
#include "ops/linear/linear_timer.h"
#include "ops/linear/tuned.h"

namespace octavo {
namespace {

using namespace octavo::testing;  // NOLINT

class TuneCuda : public GpuTest {
 protected:
  static void SetUpTestSuite() {
    folder() = std::filesystem::temp_directory_path() / fmt::format("octavo-gpu-tune-{}", ::getpid());
    std::filesystem::create_directories(folder());
    ::setenv("XDG_CACHE_HOME", folder().c_str(), 1);           // before the first look-up of this process
    ::setenv("OCTAVO_TUNED", (folder() / "none").c_str(), 1);  // no shipped table either
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }
  static std::filesystem::path& folder() {
    static std::filesystem::path path;
    return path;
  }
};

TEST_F(TuneCuda, a_measured_choice_is_used_for_its_bucket_and_only_there) {
  const LinearShape shape{.m = 300, .n = 1024, .k = 1024};
  LinearTimer timer(gpu().device, gpu().caps);
  timer.prepare(shape);
  GemmProblem problem = timer.problem(0);
  EXPECT_FALSE(choose_linear(problem, gpu().caps).is_tuned) << "an untuned machine runs the estimate's choice";

  const TunedShape tuned = tune_linear(timer, shape);
  record_linear(gpu().caps, tuned.key, tuned.entry);
  const LinearChoice choice = choose_linear(problem, gpu().caps);
  EXPECT_TRUE(choice.is_tuned);
  ASSERT_NE(choice.kernel, nullptr);
  EXPECT_EQ(choice.kernel->id, tuned.entry.winner);
  EXPECT_EQ(choice.launch.raster_group, tuned.entry.raster_group);

  problem.group[0].m = 257;  // the same bucket, 257 … 384
  EXPECT_TRUE(choose_linear(problem, gpu().caps).is_tuned);
  problem.group[0].m = 256;
  EXPECT_FALSE(choose_linear(problem, gpu().caps).is_tuned);
  problem.group[0].m = 300;
  problem.n = 1032;
  EXPECT_FALSE(choose_linear(problem, gpu().caps).is_tuned);
}

TEST_F(TuneCuda, a_choice_that_does_not_take_the_problem_is_passed_over) {
  const LinearShape shape{.m = 64, .n = 512, .k = 512};
  LinearTimer timer(gpu().device, gpu().caps);
  const TunedShape tuned = tune_linear(timer, shape);
  record_linear(gpu().caps, tuned.key, tuned.entry);
  GemmProblem problem = timer.problem(0);
  ASSERT_TRUE(choose_linear(problem, gpu().caps).is_tuned);
  problem.group[0].x += 1;  // misaligned: only the general kernel takes it
  const LinearChoice choice = choose_linear(problem, gpu().caps);
  ASSERT_NE(choice.kernel, nullptr);
  EXPECT_TRUE(choice.kernel->accepts(problem));
}

TEST_F(TuneCuda, every_candidate_and_raster_order_gives_the_same_bits) {
  for (const LinearShape& shape : {LinearShape{.m = 1000, .n = 1536, .k = 640}, LinearShape{.m = 130, .n = 4608, .k = 4608}}) {
    LinearTimer timer(gpu().device, gpu().caps);
    timer.prepare(shape);
    const GemmProblem& problem = timer.problem(0);
    const Tensor y(DType::bf16, {shape.m, shape.n});
    std::vector<std::byte> first;
    for (const GemmKernel* kernel : gemm_candidates(problem, gpu().caps)) {
      for (const int group : {1, 3, 8}) {
        Tensor poison(DType::bf16, {shape.m, shape.n});
        std::memset(poison.view().data, 0x7f, poison.bytes());
        copy_bytes(problem.group[0].y, gpu().device, poison.view().data, Device{}, poison.bytes(), &timer.stream());
        timer.time(*kernel, {.raster_group = group}, int(timer.sets()), false);  // every set once, set 0 among them
        std::vector<std::byte> bytes(y.bytes());
        copy_bytes(bytes.data(), Device{}, problem.group[0].y, gpu().device, bytes.size(), &timer.stream());
        timer.stream().synchronize();
        if (first.empty()) first = bytes;
        ASSERT_EQ(std::memcmp(bytes.data(), first.data(), bytes.size()), 0) << kernel->id << ", raster " << group;
      }
    }
  }
}

TEST_F(TuneCuda, a_pair_of_problems_has_its_own_choice) {
  const LinearShape pair{.m = 256, .m2 = 320, .n = 1024, .k = 1024};
  LinearTimer timer(gpu().device, gpu().caps);
  const TunedShape tuned = tune_linear(timer, pair);
  record_linear(gpu().caps, tuned.key, tuned.entry);
  EXPECT_TRUE(choose_linear(timer.problem(0), gpu().caps).is_tuned);
  GemmProblem other = timer.problem(0);
  other.group[1].m = 321;
  EXPECT_FALSE(choose_linear(other, gpu().caps).is_tuned) << "pairs are exact";
}

TEST_F(TuneCuda, tuning_one_shape_costs_under_two_seconds) {
  LinearTimer timer(gpu().device, gpu().caps);
  EXPECT_LT(tune_linear(timer, {.m = 4096, .n = 4608, .k = 4608}).spent, 2.0);
}

}  // namespace
}  // namespace octavo
