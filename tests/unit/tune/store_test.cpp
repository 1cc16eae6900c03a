// Remembering choices: damaged and foreign files, merges, and a writer that is killed.
#include "tune/store.h"

#include <gtest/gtest.h>
#include <signal.h>  // NOLINT: kill is POSIX
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "base/files.h"
#include "base/log.h"
#include "octavo/error.h"

namespace octavo::tune {
namespace {

namespace fs = std::filesystem;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("octavo-tune-test-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "shipped");
    log::set_sink([this](log::Level, std::string_view topic, std::string_view text) { lines_.push_back(std::string(topic) + ": " + std::string(text)); });
  }
  void TearDown() override {
    log::set_sink({});
    fs::remove_all(folder_);
  }

  GpuKey gpu_{.name = "NVIDIA Test", .sm = 86, .sm_count = 82, .driver_major = 13, .kernel_set = "abc"};
  Places places() const { return {.shipped = folder_ / "shipped", .user = folder_ / "user"}; }
  Store store() const { return {gpu_, places()}; }
  static ShapeKey shape(std::int64_t m) { return {.n = 4608, .k = 12288, .m = m, .epilogue = "plain", .out = "bf16"}; }
  static Entry entry(const std::string& winner, double seconds = 1e-4) {
    return {.winner = winner, .raster_group = 8, .seconds = seconds, .measured_m = 100, .lost = {{"other", 2 * seconds}}};
  }
  void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string own_text() const { return read_text(folder_ / "user" / gpu_.file_name(), 1 << 20); }

  fs::path folder_;
  std::vector<std::string> lines_;
};

TEST_F(StoreTest, an_untuned_machine_has_no_choice_and_no_complaint) {
  EXPECT_EQ(store().find(shape(128)), nullptr);
  EXPECT_TRUE(lines_.empty());
  EXPECT_FALSE(fs::exists(folder_ / "user")) << "looking must not write";
}

TEST_F(StoreTest, what_was_recorded_is_found_by_the_next_process) {
  store().record(shape(4096), entry("L0", 123.456e-6));
  const Store again = store();
  const Entry* found = again.find(shape(4096));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->winner, "L0");
  EXPECT_EQ(found->raster_group, 8);
  EXPECT_DOUBLE_EQ(found->seconds, 123.456e-6);
  ASSERT_EQ(found->lost.size(), 1u);
  EXPECT_EQ(found->lost[0].id, "other");
  EXPECT_EQ(again.find(shape(4608)), nullptr);
}

TEST_F(StoreTest, own_choice_wins_over_the_shipped_one) {
  Table shipped(gpu_);
  shipped.put(shape(128), entry("shipped"));
  shipped.put(shape(256), entry("shipped"));
  write(folder_ / "shipped" / gpu_.file_name(), shipped.to_json());
  Store both = store();
  EXPECT_EQ(both.find(shape(128))->winner, "shipped");
  both.record(shape(128), entry("own"));
  EXPECT_EQ(store().find(shape(128))->winner, "own");
  EXPECT_EQ(store().find(shape(256))->winner, "shipped");
}

TEST_F(StoreTest, damaged_files_are_ignored_with_one_line_and_rebuilt) {
  store().record(shape(128), entry("L0"));
  const std::string good = own_text();
  const std::vector<std::string> damaged{
      "",
      "\0\0\0\0",
      good.substr(0, good.size() / 2),
      good.substr(0, good.size() - 4),
      "[1, 2, 3]",
      "{}",
      std::string(100000, '['),
      R"({"format":"octavo-tuned","version":99,"gpu":{"name":"NVIDIA Test","sm":86,"sm_count":82,"driver_major":13},"kernel_set":"abc","choices":[]})",
      R"({"format":"octavo-tuned","version":1,"gpu":{"name":"NVIDIA Test","sm":86,"sm_count":82,"driver_major":13},"kernel_set":"abc","choices":[{"n":-1}]})",
      R"({"format":"octavo-tuned","version":1,"gpu":"NVIDIA Test","kernel_set":"abc","choices":[]})",
  };
  for (const std::string& text : damaged) {
    write(folder_ / "user" / gpu_.file_name(), text);
    lines_.clear();
    Store rebuilt = store();
    EXPECT_EQ(rebuilt.find(shape(128)), nullptr) << text.substr(0, 40);
    ASSERT_EQ(lines_.size(), 1u) << text.substr(0, 40);
    EXPECT_TRUE(lines_[0].starts_with("tune: ")) << lines_[0];
    EXPECT_EQ(lines_[0].find('\n'), std::string::npos) << lines_[0];
    rebuilt.record(shape(256), entry("L1"));
    lines_.clear();
    EXPECT_EQ(store().find(shape(256))->winner, "L1");
    EXPECT_TRUE(lines_.empty());
  }
}

TEST_F(StoreTest, a_file_of_another_gpu_driver_or_kernel_set_is_ignored_with_one_line) {
  std::vector<GpuKey> others(4, gpu_);
  others[0].sm_count = 84;
  others[1].driver_major = 12;
  others[2].kernel_set = "def";
  others[3].name = "NVIDIA TEST";  // the same file name
  for (const GpuKey& other : others) {
    Table table(other);
    table.put(shape(128), entry("L0"));
    write(folder_ / "user" / gpu_.file_name(), table.to_json());
    lines_.clear();
    EXPECT_EQ(store().find(shape(128)), nullptr);
    EXPECT_EQ(lines_.size(), 1u);
  }
}

TEST_F(StoreTest, importing_a_table_of_another_gpu_is_refused_and_changes_nothing) {
  store().record(shape(128), entry("own"));
  GpuKey other = gpu_;
  other.name = "NVIDIA Other";
  Table foreign(other);
  foreign.put(shape(128), entry("foreign"));
  write(folder_ / "foreign.json", foreign.to_json());
  Store importer = store();
  try {
    importer.import_from(folder_ / "foreign.json");
    FAIL() << "imported";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("NVIDIA Other"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("NVIDIA Test"), std::string::npos) << error.what();
  }
  EXPECT_EQ(store().find(shape(128))->winner, "own");
  write(folder_ / "damaged.json", "{");
  EXPECT_THROW(importer.import_from(folder_ / "damaged.json"), DataError);
  EXPECT_THROW(importer.import_from(folder_ / "missing.json"), InvalidArgument);
}

TEST_F(StoreTest, export_then_import_gives_the_same_choices) {
  Store first = store();
  first.record(shape(128), entry("L0"));
  first.record({.n = 13824, .k = 4608, .m = 4096, .m2 = 4352, .epilogue = "silu_mul", .out = "f16"}, entry("L1"));
  first.export_to(folder_ / "out.json");
  fs::remove_all(folder_ / "user");
  Store second = store();
  EXPECT_EQ(second.import_from(folder_ / "out.json"), 2u);
  second.export_to(folder_ / "again.json");
  EXPECT_EQ(read_text(folder_ / "out.json", 1 << 20), read_text(folder_ / "again.json", 1 << 20));
  EXPECT_EQ(store().own_count(), 2u);
}

TEST_F(StoreTest, two_processes_keep_each_others_choices) {
  Store a = store();
  Store b = store();
  a.record(shape(128), entry("a"));
  b.record(shape(256), entry("b"));
  a.record(shape(384), entry("a"));
  EXPECT_EQ(store().own_count(), 3u);
}

TEST_F(StoreTest, a_folder_that_cannot_be_made_is_named) {
  write(folder_ / "user", "a file where the folder should be");
  try {
    store().record(shape(128), entry("L0"));
    FAIL() << "recorded";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("XDG_CACHE_HOME"), std::string::npos) << error.what();
  }
}

// A child tunes shape after shape and says how far it is; it is killed at a moment it cannot choose. Whatever was said is there.
TEST_F(StoreTest, kill_at_any_moment_then_resume) {
  std::mt19937 random(5);
  std::int64_t resumed_from = 0;
  for (int round = 0; round < 25; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe_ends[0]);
      Store tuner = store();
      for (std::int64_t m = 1; m <= 100000; ++m) {
        if (tuner.has_own(shape(m))) continue;  // resume
        tuner.record(shape(m), entry("L0"));
        if (::write(pipe_ends[1], &m, sizeof m) != sizeof m) ::_exit(1);
      }
      ::_exit(0);
    }
    ::close(pipe_ends[1]);
    std::int64_t said = resumed_from;
    std::int64_t m = 0;
    ASSERT_EQ(::read(pipe_ends[0], &m, sizeof m), ssize_t(sizeof m)) << "the child must get somewhere first, however slow the disk";
    EXPECT_EQ(m, said + 1) << "resumed where the one before had stopped";
    said = m;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(pipe_ends[0], &m, sizeof m) == sizeof m) said = m;
    ::close(pipe_ends[0]);

    const Store after = store();
    EXPECT_TRUE(lines_.empty()) << lines_.front();
    const auto count = std::int64_t(after.own_count());
    EXPECT_GE(count, said) << "what was reported as written is there";
    EXPECT_LE(count, said + 1) << "and at most the one whose report was cut off";
    resumed_from = count;
  }
  EXPECT_GE(resumed_from, 25);
  int leftovers = 0;
  for (const auto& file : fs::directory_iterator(folder_ / "user")) leftovers += file.path().extension() == ".part" ? 1 : 0;
  EXPECT_EQ(leftovers, 0) << "temporaries of killed writers are removed by the next";
}

}  // namespace
}  // namespace octavo::tune
