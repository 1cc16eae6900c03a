// A large file that is written in parts, survives being killed, and appears under its name only when it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace octavo {

// The parts lie in "<path>.partial" until commit(); "<path>.partial.json" lists those that are safely on disk, each with a note, its place and a hash.
// A later object with the same path and the same `plan` goes on where the first one stopped; with another plan, or if the bytes are no longer those
// that were written, it starts anew.
class ResumableFile {
 public:
  // Throws InvalidArgument if the folder cannot be written or another process is writing the same file, DataError if the disk has not `bytes`
  // free; what an earlier run left is then removed.
  ResumableFile(std::filesystem::path path, std::uint64_t bytes, const std::string& plan);
  ~ResumableFile();
  ResumableFile(const ResumableFile&) = delete;
  ResumableFile& operator=(const ResumableFile&) = delete;

  // Parts that an earlier run finished, with their notes.
  const std::map<std::string, std::string>& finished() const { return finished_; }

  // Why the finished parts of an earlier run with this plan are not used; empty if they are, or if there are none.
  const std::string& remark() const { return remark_; }

  // What is written from now on belongs to the next part that is finished; what was written before and not finished belongs to none.
  void begin_part() { ranges_.clear(); }
  // Throws DataError if the disk is full.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // All bytes of `part` have been written: they reach the disk before this returns.
  void finish_part(const std::string& part, const std::string& note);
  // Gives the file its name. Throws DataError if that fails.
  void commit();
  // Removes what was written so far.
  void abandon() noexcept;

 private:
  struct Range {
    std::uint64_t offset = 0, bytes = 0;
    std::string hash{};
  };
  struct Journal {
    std::map<std::string, std::string> notes{};
    std::map<std::string, std::vector<Range>> ranges{};
  };
  static Journal read_journal(const std::filesystem::path& path, const std::string& plan);
  // What is wrong with the parts of the journal; empty if they are all there.
  std::string damage() const;

  std::filesystem::path path_, partial_, journal_;
  std::string plan_, remark_{};
  std::map<std::string, std::string> finished_{};
  std::map<std::string, std::vector<Range>> places_{};  // of the finished parts
  std::vector<Range> ranges_{};                         // written, and not yet finished
  int fd_ = -1;
};

}  // namespace octavo
