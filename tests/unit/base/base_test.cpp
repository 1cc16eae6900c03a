#include <gtest/gtest.h>

#include <unistd.h>
#include <atomic>

#include <fstream>
#include <stdexcept>
#include <vector>

#include "base/checked_math.h"
#include "base/files.h"
#include "base/thread_pool.h"
#include "octavo/error.h"

namespace octavo {
namespace {

TEST(ThreadPool, every_index_runs_exactly_once) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> hits(97);
      pool.for_each(97, [&](std::int64_t i) { hits[std::size_t(i)].fetch_add(1); });
      for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1);
    }
  }
}

TEST(ThreadPool, exception_reaches_the_caller_and_the_pool_lives_on) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.for_each(100,
                             [](std::int64_t i) {
                               if (i == 13) throw std::runtime_error("thirteen");
                             }),
               std::runtime_error);
  std::atomic<int> sum{0};
  pool.for_each(10, [&](std::int64_t i) { sum += int(i); });
  EXPECT_EQ(sum.load(), 45);
}

TEST(ThreadPool, call_from_inside_a_body_runs_serially) {
  ThreadPool pool(2);
  std::atomic<int> count{0};
  pool.for_each(4, [&](std::int64_t) { pool.for_each(5, [&](std::int64_t) { ++count; }); });
  EXPECT_EQ(count.load(), 20);
}

TEST(ThreadPool, zero_and_negative_counts_do_nothing) {
  ThreadPool pool(2);
  pool.for_each(0, [](std::int64_t) { FAIL(); });
  pool.for_each(-3, [](std::int64_t) { FAIL(); });
}

TEST(CheckedMath, overflow_is_absent_not_wrapped) {
  EXPECT_EQ(checked_mul(3, 4), 12);
  EXPECT_FALSE(checked_mul(INT64_MAX / 2, 3));
  EXPECT_FALSE(checked_add(INT64_MAX, 1));
}

class Files : public testing::Test {
 protected:
  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("octavo_files_" + std::to_string(::getpid()));
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
};

TEST_F(Files, atomic_file_appears_only_on_commit) {
  const auto path = folder_ / "out.bin";
  {
    AtomicFile file(path);
    file.write(std::as_bytes(std::span("abc", 3)));
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  AtomicFile file(path);
  file.write(std::as_bytes(std::span("abc", 3)));
  file.commit();
  EXPECT_EQ(read_text(path, 10), "abc");
}

TEST_F(Files, missing_folder_and_folder_as_target_are_invalid_arguments) {
  EXPECT_THROW(AtomicFile(folder_ / "no" / "out.bin"), InvalidArgument);
  EXPECT_THROW(AtomicFile{folder_}, InvalidArgument);
  EXPECT_THROW(MappedFile(folder_ / "none"), InvalidArgument);
  EXPECT_THROW(MappedFile{folder_}, InvalidArgument);
}

TEST_F(Files, empty_file_maps_to_nothing) {
  std::ofstream(folder_ / "empty").close();
  EXPECT_TRUE(MappedFile(folder_ / "empty").bytes().empty());
}

TEST_F(Files, text_over_the_limit_is_a_data_error) {
  std::ofstream(folder_ / "big") << std::string(100, 'x');
  EXPECT_THROW(read_text(folder_ / "big", 99), DataError);
}

}  // namespace
}  // namespace octavo
