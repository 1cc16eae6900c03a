// What a command makes on disk, so that a failure can take it back.
#pragma once

#include <filesystem>
#include <vector>

namespace octavo {

bool is_weight_file(const std::filesystem::path& path);

// Everything made through it disappears with it, last first, unless keep() was called. A file that was there before stays, or stays replaced.
// Throws InvalidArgument if a folder or file cannot be made or read, DataError if a file cannot be copied ("disk full?").
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
  // The file `to` gets the bytes of `from`, whatever it was before, and is never there in part. Weights become a second name of the same file where the
  // disk allows it; everything else is a copy, so that editing it leaves the source alone.
  void take(const std::filesystem::path& from, const std::filesystem::path& to);
  // A folder with all that is in it; what only `to` has stays. Throws InvalidArgument for a link to a folder around it, and if `to` is a link.
  void take_tree(const std::filesystem::path& from, const std::filesystem::path& to);
  void copy(const std::filesystem::path& from, const std::filesystem::path& to);
  void keep() noexcept { made_.clear(); }
  // Only folders that nothing was put into still disappear.
  void keep_files();

 private:
  std::vector<std::filesystem::path> made_{};
};

}  // namespace octavo
