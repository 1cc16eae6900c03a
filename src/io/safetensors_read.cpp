#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/files.h"
#include "io/safetensors.h"
#include "octavo/error.h"

namespace octavo {

struct SafetensorsFile::Impl {
  explicit Impl(const std::filesystem::path& path) : file(path) {
    entries = parse_safetensors_header(file.bytes(), file.bytes().size(), who(), &metadata);
    by_name.reserve(entries.size());
    for (const SafetensorsEntry& entry : entries) by_name.emplace(entry.name, &entry);
  }
  std::string who() const { return fmt::format("file '{}'", file.path().string()); }
  std::span<const std::byte> bytes_of(const SafetensorsEntry& entry) const { return file.bytes().subspan(std::size_t(entry.offset), std::size_t(entry.bytes)); }

  MappedFile file;
  std::vector<SafetensorsEntry> entries{};
  std::map<std::string, std::string> metadata{};
  std::unordered_map<std::string_view, const SafetensorsEntry*> by_name{};  // names live in `entries`
  std::mutex mutex{};
  std::unordered_map<const SafetensorsEntry*, Tensor> aligned_copies{};  // guarded by mutex
};

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;

const std::filesystem::path& SafetensorsFile::path() const { return impl_->file.path(); }
std::span<const SafetensorsEntry> SafetensorsFile::entries() const { return impl_->entries; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return impl_->metadata; }

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = impl_->by_name.find(name);
  return found == impl_->by_name.end() ? nullptr : found->second;
}

TensorView SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) {
    throw DataError(fmt::format("{}: has no tensor '{}' among its {}; is it the right file, and is it whole?", impl_->who(), name, impl_->entries.size()));
  }
  if (!entry->dtype) {
    throw DataError(
        fmt::format("{}: tensor '{}' is {}, which this program cannot read; convert it to F32, BF16 or F16", impl_->who(), name, entry->dtype_name));
  }
  const std::span<const std::byte> bytes = impl_->bytes_of(*entry);
  void* data = const_cast<std::byte*>(bytes.data());  // a view has no const; the map is read-only, so writing would fault
  if (reinterpret_cast<std::uintptr_t>(data) % octavo::bytes_of(*entry->dtype) != 0) {
    const std::scoped_lock lock(impl_->mutex);
    auto [copy, is_new] = impl_->aligned_copies.try_emplace(entry);
    if (is_new) {
      try {
        copy->second = Tensor(*entry->dtype, entry->shape, {}, fmt::format("aligned copy of '{}'", name));
      } catch (...) {
        impl_->aligned_copies.erase(copy);
        throw;
      }
      if (!bytes.empty()) std::memcpy(copy->second.as<void>(), bytes.data(), bytes.size());
    }
    return copy->second.view();
  }
  return {data, *entry->dtype, entry->shape};
}

std::span<const std::byte> SafetensorsFile::raw(const SafetensorsEntry& entry) const { return impl_->bytes_of(entry); }

void SafetensorsFile::release(std::string_view name) const {
  if (const SafetensorsEntry* entry = find(name)) impl_->file.release(impl_->bytes_of(*entry));
}

}  // namespace octavo
