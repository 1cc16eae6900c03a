#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checked_math.h"
#include "base/files.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"
#include "octavo/error.h"

namespace octavo {
namespace {

constexpr std::int64_t kDataAlignment = 64;  // a cache line, and what vector loads of any width want
constexpr std::size_t kBufferBytes = 1u << 20;

std::string_view safetensors_name(DType dtype) {
  for (const SafetensorsDType& known : kSafetensorsDTypes) {
    if (known.dtype == dtype) return known.name;
  }
  throw InternalError(fmt::format("safetensors: no name for dtype {}", name_of(dtype)));
}

std::string header_of(const std::string& who, std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) {
    Json& strings = header["__metadata__"] = Json::object();
    for (const auto& [key, value] : metadata) strings[key] = value;
  }
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const auto& [name, view] : tensors) {
    if (name == "__metadata__") throw InvalidArgument(fmt::format("{}: a tensor cannot be called '__metadata__'; the format keeps that name for itself", who));
    if (!names.insert(name).second) throw InvalidArgument(fmt::format("{}: two tensors are called '{}'; names must differ", who, name));
    if (!view.device.is_cpu()) throw InternalError(fmt::format("{}: tensor '{}' is not on the CPU; copy it there first", who, name));
    std::vector<std::int64_t> extents;
    for (int axis = 0; axis < view.shape.rank(); ++axis) extents.push_back(view.shape[axis]);
    Json& fields = header[name] = Json::object();
    fields["dtype"] = safetensors_name(view.dtype);
    fields["shape"] = extents;
    fields["data_offsets"] = {offset, offset + view.bytes()};
    offset += view.bytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {  // the only way to fail
    throw InvalidArgument(fmt::format("{}: a tensor's name or the metadata is not valid UTF-8", who));
  }
  text.resize(std::size_t(round_up(8 + std::int64_t(text.size()), kDataAlignment) - 8), ' ');
  return text;
}

// Gathers rows into large writes.
class Gather {
 public:
  explicit Gather(AtomicFile& file) : file_(file) { buffer_.reserve(kBufferBytes); }
  void add(std::span<const std::byte> bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) flush();
    if (bytes.size() >= kBufferBytes) {
      file_.write(bytes);
    } else {
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    }
  }
  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }

 private:
  AtomicFile& file_;
  std::vector<std::byte> buffer_{};
};

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(fmt::format("output '{}'", path.string()), tensors, metadata);
  AtomicFile file(path);
  Gather gather(file);
  std::byte length[8];
  for (std::size_t i = 0; i < 8; ++i) length[i] = std::byte(std::uint64_t(header.size()) >> (8 * i));
  gather.add(length);
  gather.add(std::as_bytes(std::span(header)));
  for (const auto& [name, view] : tensors) {
    if (view.bytes() == 0) continue;
    if (view.is_dense()) {
      gather.add({static_cast<const std::byte*>(view.data), view.bytes()});
    } else {
      const std::size_t row_bytes = std::size_t(view.columns()) * bytes_of(view.dtype);
      for (std::int64_t row = 0; row < view.rows(); ++row) gather.add({static_cast<const std::byte*>(view.row_bytes(row)), row_bytes});
    }
  }
  gather.flush();
  file.commit();
}

void write_sparse_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(fmt::format("output '{}'", path.string()), tensors, metadata);
  AtomicFile file(path);
  std::byte length[8];
  for (std::size_t i = 0; i < 8; ++i) length[i] = std::byte(std::uint64_t(header.size()) >> (8 * i));
  file.write_at(0, length);
  file.write_at(8, std::as_bytes(std::span(header)));
  std::uint64_t offset = 8 + header.size();
  for (const auto& [name, view] : tensors) {
    if (!view.is_dense()) throw InternalError(fmt::format("output '{}': tensor '{}' has strided rows; a sparse file takes dense ones", path.string(), name));
    const std::size_t bytes = view.bytes();
    if (view.data != nullptr) {
      file.write_at(offset, {static_cast<const std::byte*>(view.data), bytes});
    } else if (bytes > 0) {
      constexpr std::byte kZero{0};
      file.write_at(offset + bytes - 1, {&kZero, 1});  // the file reaches this far
    }
    offset += bytes;
  }
  file.commit();
}

}  // namespace octavo
