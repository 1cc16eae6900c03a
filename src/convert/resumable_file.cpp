#include "convert/resumable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "base/files.h"
#include "io/json.h"
#include "octavo/error.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

std::string reason() { return std::strerror(errno); }

// A run that was killed while it wrote its journal leaves a temporary beside it.
void remove_temporaries_of(const fs::path& journal) {
  const std::string prefix = journal.filename().string() + ".";
  std::error_code ignored;
  const fs::path folder = journal.parent_path().empty() ? fs::path(".") : journal.parent_path();
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".part")) found.push_back(entry.path());
  }
  for (const fs::path& path : found) fs::remove(path, ignored);
}

std::string hash_of(std::span<const std::byte> bytes) {
  ContentHash hash;
  hash.add(bytes.data(), bytes.size());
  return hash.text();
}

}  // namespace

// What an earlier run left, if it followed the same plan. A journal that cannot be read is as good as none.
ResumableFile::Journal ResumableFile::read_journal(const fs::path& path, const std::string& plan) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  try {
    const Json json = read_json(path);
    if (json.at("plan").get<std::string>() != plan) return {};
    Journal journal;
    for (const auto& [part, entry] : json.at("finished").items()) {
      journal.notes[part] = entry.at("note").get<std::string>();
      std::vector<Range>& ranges = journal.ranges[part];
      for (const Json& range : entry.at("places"))
        ranges.push_back({range.at(0).get<std::uint64_t>(), range.at(1).get<std::uint64_t>(), range.at(2).get<std::string>()});
    }
    return journal;
  } catch (const std::exception&) {
    return {};
  }
}

std::string ResumableFile::damage() const {
  const MappedFile file(partial_);
  for (const auto& [part, ranges] : places_) {
    for (const Range& range : ranges) {
      if (range.offset > file.bytes().size() || range.bytes > file.bytes().size() - range.offset)
        return fmt::format("is only {} bytes long, and '{}' should reach further", file.bytes().size(), part);
      const auto bytes = file.bytes().subspan(std::size_t(range.offset), std::size_t(range.bytes));
      if (hash_of(bytes) != range.hash) return fmt::format("no longer holds what was written for '{}'", part);
      file.release(bytes);
    }
  }
  return "";
}

ResumableFile::ResumableFile(fs::path path, std::uint64_t bytes, const std::string& plan)
    : path_(std::move(path)), partial_(path_), journal_(path_), plan_(plan) {
  partial_ += ".partial";
  journal_ += ".partial.json";
  if (fs::is_directory(path_)) throw InvalidArgument(fmt::format("output '{}': is a folder; give the name of a file", path_.string()));
  fd_ = ::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0)
    throw InvalidArgument(fmt::format("output '{}': cannot be written ({}); choose a path in a folder that exists and is writable", path_.string(), reason()));
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    ::close(std::exchange(fd_, -1));
    throw InvalidArgument(fmt::format("output '{}': another process is writing it; wait for it, or choose another name", path_.string()));
  }
  remove_temporaries_of(journal_);  // nobody else is writing one: the lock is ours
  Journal journal = read_journal(journal_, plan_);
  finished_ = std::move(journal.notes);
  places_ = std::move(journal.ranges);
  if (const std::string found = damage(); !found.empty()) {
    remark_ = fmt::format("'{}' {}; everything is done anew", partial_.string(), found);
    finished_.clear();
    places_.clear();
  }
  if (finished_.empty() && ::ftruncate(fd_, 0) != 0) throw DataError(fmt::format("output '{}': cannot be emptied ({})", partial_.string(), reason()));
  std::error_code failure;
  if (std::uint64_t(std::max<off_t>(::lseek(fd_, 0, SEEK_END), 0)) > bytes && ::ftruncate(fd_, off_t(bytes)) != 0)
    throw DataError(fmt::format("output '{}': cannot be shortened ({})", partial_.string(), reason()));
  const fs::space_info space = fs::space(partial_, failure);
  const std::uint64_t present = std::uint64_t(std::max<off_t>(::lseek(fd_, 0, SEEK_END), 0));
  if (!failure && bytes > present && space.available < bytes - present) {
    abandon();
    throw DataError(
        fmt::format("output '{}': needs {} bytes but the disk has {} free; make room or choose another disk", path_.string(), bytes, space.available));
  }
}

ResumableFile::~ResumableFile() {
  if (fd_ >= 0) ::close(fd_);
}

void ResumableFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  ranges_.push_back({offset, bytes.size(), hash_of(bytes)});
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), off_t(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw DataError(fmt::format("output '{}': writing failed ({}); is the disk full?", path_.string(), reason()));
    }
    bytes = bytes.subspan(std::size_t(written));
    offset += std::uint64_t(written);
  }
}

void ResumableFile::finish_part(const std::string& part, const std::string& note) {
  if (::fdatasync(fd_) != 0) throw DataError(fmt::format("output '{}': writing failed ({}); is the disk full?", path_.string(), reason()));
  finished_[part] = note;
  places_[part] = std::exchange(ranges_, {});
  Json journal = {{"plan", plan_}, {"finished", Json::object()}};
  for (const auto& [name, text] : finished_) {
    Json places = Json::array();
    for (const Range& range : places_.at(name)) places.push_back({range.offset, range.bytes, range.hash});
    journal["finished"][name] = {{"note", text}, {"places", places}};
  }
  const std::string text = journal.dump(1);
  AtomicFile file(journal_);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void ResumableFile::commit() {
  if (::fsync(fd_) != 0) throw DataError(fmt::format("output '{}': writing failed ({}); is the disk full?", path_.string(), reason()));
  std::error_code failure;
  fs::rename(partial_, path_, failure);
  if (failure) throw DataError(fmt::format("output '{}': could not be given its name ({}); choose another", path_.string(), failure.message()));
  ::close(std::exchange(fd_, -1));
  fs::remove(journal_, failure);
}

void ResumableFile::abandon() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  std::error_code ignored;
  fs::remove(partial_, ignored);
  fs::remove(journal_, ignored);
}

}  // namespace octavo
