#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "octavo/error.h"

namespace octavo {
namespace {

std::string reason() { return std::strerror(errno); }

// "<name>.<pid>.part", with the end of a long name cut off: what the disk allows as a name must work here too.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<int> cut_names = 0;
  std::string name = path.filename().string();
  std::string suffix = fmt::format(".{}.part", ::getpid());
  if (name.size() + suffix.size() > NAME_MAX) {
    suffix = fmt::format(".{}{}", cut_names++, suffix);  // two cut names may look the same
    name.resize(std::min(name.size(), std::size_t(NAME_MAX) - suffix.size()));
  }
  return path.parent_path() / (name + suffix);
}

// Closes a descriptor at the end of the scope.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe that nobody writes to would be waited for
  if (file.fd < 0) {
    throw InvalidArgument(fmt::format("file '{}': cannot be opened ({}); check the path and its permissions", path.string(), reason()));
  }
  struct stat status{};
  if (::fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    throw InvalidArgument(fmt::format("file '{}': is not a regular file; a file was expected here", path.string()));
  }
  size_ = std::size_t(status.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED && errno == ENOMEM) {
    throw OutOfMemory(fmt::format("file '{}': no address space to map its {} bytes; raise the limit of this process (ulimit -v)", path.string(), size_));
  }
  if (address == MAP_FAILED) {
    throw DataError(fmt::format("file '{}': {} bytes cannot be mapped into memory ({})", path.string(), size_, reason()));
  }
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

void MappedFile::release(std::span<const std::byte> part) const noexcept {
  const auto page = std::uintptr_t(::sysconf(_SC_PAGESIZE));
  const auto begin = (std::uintptr_t(part.data()) + page - 1) / page * page;  // whole pages inside the part only
  const auto end = (std::uintptr_t(part.data()) + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::string read_text(const std::filesystem::path& path, std::size_t max_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > max_bytes) {
    throw DataError(fmt::format("file '{}': has {} bytes, more than the {} that such a file may have", path.string(), file.bytes().size(), max_bytes));
  }
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), temporary_(temporary_beside(path_)) {
  struct stat status{};
  const bool has_a_possible_name = ::lstat(path_.c_str(), &status) == 0 || errno != ENAMETOOLONG;
  if (has_a_possible_name) fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  std::error_code ignored;  // a link that leads to itself is no folder
  if (fd_ < 0 || std::filesystem::is_directory(path_, ignored)) {
    const std::string why = fd_ < 0 ? reason() : "it is a folder";
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
      ::unlink(temporary_.c_str());
    }
    throw InvalidArgument(fmt::format("output '{}': cannot be written ({}); choose a path in a folder that exists and is writable", path_.string(), why));
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)), fd_(std::exchange(other.fd_, -1)) {}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw DataError(fmt::format("output '{}': writing failed ({}); is the disk full?", path_.string(), reason()));
    }
    bytes = bytes.subspan(std::size_t(written));
  }
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (::lseek(fd_, off_t(offset), SEEK_SET) < 0) {
    throw DataError(fmt::format("output '{}': cannot seek to byte {} ({})", path_.string(), offset, reason()));
  }
  write(bytes);
}

void AtomicFile::commit() {
  const bool synced = ::fsync(fd_) == 0;
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  std::error_code failure;
  if (synced && closed) std::filesystem::rename(temporary_, path_, failure);
  if (!synced || !closed || failure) {
    const std::string why = failure ? failure.message() : reason();
    ::unlink(temporary_.c_str());
    throw DataError(fmt::format("output '{}': could not be completed ({}); is the disk full?", path_.string(), why));
  }
}

}  // namespace octavo
