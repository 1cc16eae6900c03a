// The safetensors container: 8-byte little-endian header length, a JSON header, then the tensors' bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace octavo {

struct SafetensorsEntry {
  std::string name{};
  std::string dtype_name{};      // as in the file: "BF16", "F32", "I8", ...
  std::optional<DType> dtype{};  // absent: a dtype that we cannot represent
  Shape shape{};
  std::uint64_t offset = 0;  // of the first byte, from the start of the file
  std::uint64_t bytes = 0;
};

// One file, memory-mapped; tensors are windows onto the map and live as long as the object.
// Throws InvalidArgument if the file is missing, DataError if it is not a valid safetensors file: truncated, header too large
// (more than 100 MiB), not JSON, duplicate names, shapes that overflow or disagree with their bytes, ranges that overlap, leave gaps or pass
// the end; Unsupported if a tensor has more than six axes. Says so plainly when the file is an HTML page, a Git LFS pointer, a zip (a PyTorch
// checkpoint) or empty. Opening reads the header alone. All members may be called from several threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;

  const std::filesystem::path& path() const;
  std::span<const SafetensorsEntry> entries() const;           // in file order (by offset)
  const std::map<std::string, std::string>& metadata() const;  // "__metadata__"
  const SafetensorsEntry* find(std::string_view name) const;   // null if absent
  // Throws DataError if the tensor is absent or its dtype cannot be represented. A tensor that is misaligned for its dtype is copied once.
  TensorView tensor(std::string_view name) const;
  // The bytes of any entry of this file as they lie there, aligned or not, whatever the dtype.
  std::span<const std::byte> raw(const SafetensorsEntry& entry) const;
  // The tensor's pages may leave memory; they are read again from disk when touched.
  void release(std::string_view name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct NamedTensor {
  std::string name{};
  TensorView view{};  // on the CPU; rows may be strided
};

// Writes a file whole or not at all. Tensors keep the given order; the header is padded so that data starts 64-byte aligned. The format allows
// no gaps, so put the widest dtypes first if every tensor is to stay aligned for its dtype.
// Throws InvalidArgument if the path cannot be written, two names are equal or a name is not UTF-8; DataError if the disk fills up.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata = {});

// The same, but a tensor without memory (null, dense) becomes a hole: it reads as zeros and takes no disk where the file system has sparse files.
void write_sparse_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata);

// Parses a header alone (the bytes of a file's first part); what the fuzzer calls. `file_bytes` is the size of the whole file.
std::vector<SafetensorsEntry> parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_bytes, const std::string& who,
                                                       std::map<std::string, std::string>* metadata);

}  // namespace octavo
