#include "api/output_tree.h"

#include <fmt/format.h>

#include <system_error>

#include "octavo/error.h"

namespace octavo {

namespace fs = std::filesystem;

OutputTree::~OutputTree() {
  std::error_code ignored;
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) fs::remove(*path, ignored);  // a folder that is not empty stays
}

void OutputTree::keep_files() {
  std::erase_if(made_, [](const fs::path& path) {
    std::error_code ignored;
    return !fs::is_directory(path, ignored);
  });
}

void OutputTree::make_folder(const fs::path& path) {
  std::error_code failure;
  if (fs::is_directory(path, failure)) return;
  const fs::path parent = path.parent_path();
  if (!parent.empty() && parent != path) make_folder(parent);
  if (path.filename().empty()) return;  // "folder/"
  failure.clear();
  if (fs::create_directory(path, failure)) made_.push_back(path);
  if (failure || !fs::is_directory(path)) {
    throw InvalidArgument(fmt::format("output folder '{}': cannot be made ({}); choose a path in a folder that exists and is writable", path.string(),
                                      failure ? failure.message() : "something else has this name"));
  }
}

void OutputTree::expect_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) made_.push_back(path);
}

void OutputTree::copy(const fs::path& from, const fs::path& to) {
  expect_file(to);
  std::error_code failure;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, failure);
  if (failure) throw DataError(fmt::format("output '{}': writing failed ({}); is the disk full?", to.string(), failure.message()));
}

void OutputTree::link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code failure;
  if (fs::exists(to, failure)) return;
  expect_file(to);
  fs::create_hard_link(fs::canonical(from), to, failure);
  if (failure) copy(from, to);
}

void OutputTree::link_tree(const fs::path& from, const fs::path& to) {
  make_folder(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    if (entry.is_directory()) {
      link_tree(entry.path(), to / entry.path().filename());
    } else if (entry.is_regular_file()) {
      link_or_copy(entry.path(), to / entry.path().filename());
    }
  }
}

}  // namespace octavo
