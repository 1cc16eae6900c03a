// Files as the rest of the house wants them: mapped for reading, whole or absent after writing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace octavo {

// A read-only memory map of a whole file. The bytes live as long as the object.
// Throws InvalidArgument if the path does not exist or is not a regular file, OutOfMemory or DataError if it cannot be mapped.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  const std::filesystem::path& path() const noexcept { return path_; }
  // Tells the kernel that these bytes were used once and may leave memory (they are read again from disk if touched).
  void release(std::span<const std::byte> part) const noexcept;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The whole file as text, at most `max_bytes`. Throws InvalidArgument if missing, DataError if larger.
std::string read_text(const std::filesystem::path& path, std::size_t max_bytes);

// A file that appears under its name only when commit() is called; until then it is a temporary beside it,
// removed by the destructor. Opening already proves that the folder can be written.
// Throws InvalidArgument if it cannot be created, DataError ("disk full?") if a write fails.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;

  void write(std::span<const std::byte> bytes);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

}  // namespace octavo
