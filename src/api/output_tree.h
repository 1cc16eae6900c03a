// What a command makes on disk, so that a failure can take it back.
#pragma once

#include <filesystem>
#include <vector>

namespace octavo {

// Everything made through it disappears with it, last first, unless keep() was called. What was there before stays.
// Throws InvalidArgument if a folder cannot be made, DataError if a file cannot be copied ("disk full?").
class OutputTree {
 public:
  OutputTree() = default;
  ~OutputTree();
  OutputTree(const OutputTree&) = delete;
  OutputTree& operator=(const OutputTree&) = delete;

  // And its parents.
  void make_folder(const std::filesystem::path& path);
  // A file that somebody else is about to write; forgotten if it exists already.
  void expect_file(const std::filesystem::path& path);
  // A second name for the same bytes where the disk allows it, a copy elsewhere. What is there already stays.
  void link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to);
  void link_tree(const std::filesystem::path& from, const std::filesystem::path& to);
  void copy(const std::filesystem::path& from, const std::filesystem::path& to);
  void keep() noexcept { made_.clear(); }
  // Only folders that nothing was put into still disappear.
  void keep_files();

 private:
  std::vector<std::filesystem::path> made_{};
};

}  // namespace octavo
