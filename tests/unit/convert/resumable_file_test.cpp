#include "convert/resumable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "base/files.h"
#include "golden/temporary_model.h"
#include "octavo/error.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

class ResumableFileTest : public ::testing::Test {
 protected:
  golden::TemporaryFolder temporary{};
  fs::path path = temporary.path() / "out.bin";
  static std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
  std::size_t files() const { return std::size_t(std::distance(fs::directory_iterator(temporary.path()), fs::directory_iterator())); }
};

TEST_F(ResumableFileTest, appears_when_it_is_whole_and_leaves_nothing_beside_it) {
  ResumableFile file(path, 6, "plan");
  file.write_at(3, bytes("def"));
  file.finish_part("two", "note");
  EXPECT_FALSE(fs::exists(path));
  file.write_at(0, bytes("abc"));
  file.commit();
  EXPECT_EQ(read_text(path, 100), "abcdef");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ResumableFileTest, goes_on_where_an_earlier_one_stopped) {
  {
    ResumableFile file(path, 6, "plan");
    file.write_at(0, bytes("abc"));
    file.finish_part("one", "first note");
    file.write_at(3, bytes("x"));  // never finished
  }
  ResumableFile file(path, 6, "plan");
  EXPECT_EQ(file.finished(), (std::map<std::string, std::string>{{"one", "first note"}}));
  file.write_at(3, bytes("def"));
  file.commit();
  EXPECT_EQ(read_text(path, 100), "abcdef");
}

TEST_F(ResumableFileTest, another_plan_starts_anew) {
  {
    ResumableFile file(path, 6, "plan");
    file.write_at(0, bytes("abcdefghi"));
    file.finish_part("one", "");
  }
  ResumableFile file(path, 2, "other plan");
  EXPECT_TRUE(file.finished().empty());
  file.write_at(0, bytes("xy"));
  file.commit();
  EXPECT_EQ(read_text(path, 100), "xy");
}

TEST_F(ResumableFileTest, a_damaged_journal_is_no_journal) {
  {
    ResumableFile file(path, 3, "plan");
    file.finish_part("one", "");
  }
  std::ofstream(path.string() + ".partial.json") << "{\"plan\": \"plan\", \"finished\": [";
  EXPECT_TRUE(ResumableFile(path, 3, "plan").finished().empty());
}

TEST_F(ResumableFileTest, bytes_that_are_not_those_written_start_anew) {
  const auto stop_in_the_middle = [&] {
    ResumableFile file(path, 9, "plan");
    file.write_at(0, bytes("head"));  // of no part: it may change
    file.begin_part();
    file.write_at(3, bytes("def"));
    file.write_at(0, bytes("abc"));
    file.finish_part("one", "");
    file.write_at(6, bytes("ghi"));
    file.finish_part("two", "");
  };
  const std::string partial = path.string() + ".partial";
  for (std::uint64_t length = 0; length <= 9; ++length) {
    stop_in_the_middle();
    fs::resize_file(partial, length);
    const ResumableFile file(path, 9, "plan");
    EXPECT_EQ(file.finished().size(), length < 9 ? 0u : 2u) << length;
    EXPECT_EQ(file.remark().empty(), length == 9) << file.remark();
    EXPECT_EQ(fs::file_size(partial), length < 9 ? 0u : 9u);
  }
  for (std::uint64_t at = 0; at < 9; ++at) {
    stop_in_the_middle();
    std::fstream(partial, std::ios::in | std::ios::out | std::ios::binary).seekp(std::streamoff(at)).put('X');
    const ResumableFile file(path, 9, "plan");
    EXPECT_TRUE(file.finished().empty()) << at;
    EXPECT_THAT(file.remark(), ::testing::HasSubstr(at < 6 ? "'one'" : "'two'"));
  }
}

TEST_F(ResumableFileTest, what_belongs_to_no_part_may_change_and_what_is_too_long_is_cut) {
  {
    ResumableFile file(path, 6, "plan");
    file.write_at(0, bytes("abc"));
    file.begin_part();
    file.write_at(3, bytes("def"));
    file.finish_part("one", "");
    file.write_at(0, bytes("ABC"));
  }
  std::ofstream(path.string() + ".partial", std::ios::app) << "more";
  ResumableFile file(path, 6, "plan");
  EXPECT_EQ(file.finished().size(), 1u);
  EXPECT_EQ(file.remark(), "");
  file.commit();
  EXPECT_EQ(read_text(path, 100), "ABCdef");
}

TEST_F(ResumableFileTest, killed_while_writing_the_journal) {
  {
    ResumableFile file(path, 3, "plan");
    file.finish_part("one", "");
  }
  std::ofstream(path.string() + ".partial.json.4711.part") << "{\"pl";
  ResumableFile file(path, 3, "plan");
  EXPECT_EQ(file.finished().size(), 1u);
  file.write_at(0, bytes("abc"));
  file.commit();
  EXPECT_EQ(files(), 1u);
}

TEST_F(ResumableFileTest, two_writers_of_one_file) {
  const ResumableFile first(path, 3, "plan");
  EXPECT_THROW(ResumableFile(path, 3, "plan"), InvalidArgument);
}

TEST_F(ResumableFileTest, more_than_the_disk_can_hold_leaves_nothing) {
  EXPECT_THROW(ResumableFile(path, std::numeric_limits<std::uint64_t>::max() / 2, "plan"), DataError);
  EXPECT_EQ(files(), 0u);
}

TEST_F(ResumableFileTest, a_folder_that_is_not_there_or_a_name_that_is_one) {
  EXPECT_THROW(ResumableFile(temporary.path() / "no" / "out", 3, "plan"), InvalidArgument);
  EXPECT_THROW(ResumableFile(temporary.path(), 3, "plan"), InvalidArgument);
}

}  // namespace
}  // namespace octavo
