// The GGUF container, versions 2 and 3, little endian: key-values, tensor descriptions, then the tensors' bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace octavo {

// How a tensor's numbers are stored: blocks of `block` weights in `block_bytes` bytes. Types without a block are 1 weight wide.
struct GgufType {
  std::uint32_t id;
  std::string_view name;  // "Q4_K"
  int block;
  int block_bytes;
};

struct GgufEntry {
  std::string name{};
  const GgufType* type = nullptr;  // never null
  Shape shape{};                   // slowest first, as everywhere in this program; the file lists the fastest first
  std::uint64_t offset = 0;        // of the first byte, from the start of the file
  std::uint64_t bytes = 0;
};

// Key-values as text: strings as they are, numbers and booleans printed, arrays as "[N values]": nobody here reads a vocabulary from them.
using GgufMetadata = std::map<std::string, std::string>;

// Everything before the tensors' data. What the fuzzer calls; `file` is the whole file.
// Throws DataError if it is truncated, a count or length is implausible, a name or key occurs twice, a tensor's name is not UTF-8, a type id is unknown,
// extents overflow or do not fill whole blocks, tensors overlap or pass the end; Unsupported for version 1, big-endian files and more than six axes.
// Memory and time are bounded by the size of the file, whatever its counts say.
std::vector<GgufEntry> parse_gguf_header(std::span<const std::byte> file, const std::string& who, GgufMetadata* metadata);

// One file, memory-mapped. Throws as parse_gguf_header does, InvalidArgument if the file is missing. All members may be called from several threads.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);
  ~GgufFile();
  GgufFile(GgufFile&&) noexcept;

  const std::filesystem::path& path() const;
  std::span<const GgufEntry> entries() const;  // in file order (by offset)
  const GgufMetadata& metadata() const;
  const GgufEntry* find(std::string_view name) const;             // null if absent
  std::span<const std::byte> data(const GgufEntry& entry) const;  // aligned to general.alignment (32 if not set)
  // The tensor's pages may leave memory; they are read again from disk when touched.
  void release(const GgufEntry& entry) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
