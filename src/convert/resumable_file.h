// A large file that is written in parts, survives being killed, and appears under its name only when it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace octavo {

// The parts lie in "<path>.partial" until commit(); "<path>.partial.json" lists those that are safely on disk, each with a note.
// A later object with the same path and the same `plan` goes on where the first one stopped; with another plan it starts anew.
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

  // Throws DataError if the disk is full.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // All bytes of `part` have been written: they reach the disk before this returns.
  void finish_part(const std::string& part, const std::string& note);
  // Gives the file its name. Throws DataError if that fails.
  void commit();
  // Removes what was written so far.
  void abandon() noexcept;

 private:
  std::filesystem::path path_, partial_, journal_;
  std::string plan_;
  std::map<std::string, std::string> finished_{};
  int fd_ = -1;
};

}  // namespace octavo
