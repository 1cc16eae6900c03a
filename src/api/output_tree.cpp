#include "api/output_tree.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/files.h"
#include "octavo/error.h"

namespace octavo {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kCopyBytes = std::size_t(4) << 20;

// Two files, not two names of one.
bool is_apart(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::exists(b, ignored) && !fs::equivalent(a, b, ignored);
}

bool holds(const fs::path& path, const MappedFile& wanted) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) != wanted.bytes().size()) return false;
  const MappedFile file(path);
  for (std::size_t at = 0; at < wanted.bytes().size(); at += kCopyBytes) {
    const std::size_t count = std::min(kCopyBytes, wanted.bytes().size() - at);
    const auto a = file.bytes().subspan(at, count), b = wanted.bytes().subspan(at, count);
    if (std::memcmp(a.data(), b.data(), count) != 0) return false;
    file.release(a);
    wanted.release(b);
  }
  return true;
}

// Both canonical: `outer` is `inner`, or a folder that it lies in.
bool is_around(const fs::path& outer, const fs::path& inner) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// "<name>.<pid>.part" of a process that was killed while it copied.
void remove_temporaries_of(const fs::path& path) {
  const std::string prefix = path.filename().string() + ".";
  constexpr std::string_view kEnd = ".part";
  std::error_code ignored;
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(path.parent_path().empty() ? fs::path(".") : path.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(kEnd) || name.size() <= prefix.size() + kEnd.size()) continue;
    const char* begin = name.data() + prefix.size();
    const char* end = name.data() + name.size() - kEnd.size();
    pid_t process = 0;
    const auto [stop, failure] = std::from_chars(begin, end, process);
    if (failure == std::errc() && stop == end && process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) left.push_back(entry.path());
  }
  for (const fs::path& file : left) fs::remove(file, ignored);
}

}  // namespace

bool is_weight_file(const fs::path& path) {
  constexpr std::array<std::string_view, 5> kEndings{".safetensors", ".gguf", ".bin", ".pt", ".pth"};
  return std::find(kEndings.begin(), kEndings.end(), path.extension().string()) != kEndings.end();
}

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
  remove_temporaries_of(to);
  const MappedFile source(from);
  if (is_apart(from, to) && holds(to, source)) return;
  expect_file(to);
  AtomicFile file(to);
  for (std::size_t at = 0; at < source.bytes().size(); at += kCopyBytes) {
    const auto part = source.bytes().subspan(at, std::min(kCopyBytes, source.bytes().size() - at));
    file.write(part);
    source.release(part);
  }
  file.commit();
}

void OutputTree::take(const fs::path& from, const fs::path& to) {
  if (!is_weight_file(from)) return copy(from, to);
  remove_temporaries_of(to);
  std::error_code failure;
  if (fs::exists(to, failure) && fs::equivalent(from, to, failure)) return;
  const fs::path temporary = to.string() + fmt::format(".{}.part", ::getpid());
  fs::create_hard_link(fs::canonical(from), temporary, failure);
  if (failure) return copy(from, to);  // another disk, or one without links
  expect_file(to);
  fs::rename(temporary, to, failure);
  if (!failure) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw InvalidArgument(fmt::format("output '{}': cannot be replaced ({}); remove it, or choose another output", to.string(), failure.message()));
}

void OutputTree::take_tree(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (fs::is_symlink(to, ignored))
    throw InvalidArgument(fmt::format("output '{}': is a link, and what it leads to would be changed; remove it, or choose another output", to.string()));
  make_folder(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    if (entry.is_directory()) {
      if (entry.is_symlink() && is_around(fs::canonical(entry.path()), fs::canonical(from)))
        throw InvalidArgument(fmt::format("input '{}': is a link to a folder that it lies in; remove it", entry.path().string()));
      take_tree(entry.path(), to / entry.path().filename());
    } else if (entry.is_regular_file()) {
      take(entry.path(), to / entry.path().filename());
    }
  }
}

}  // namespace octavo
