#include "weights/weight_file.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <optional>
#include <vector>

#include "io/gguf.h"
#include "io/safetensors.h"
#include "octavo/error.h"

namespace octavo {
namespace {

bool begins_with_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // the reader says what is wrong; opening a pipe would wait
  std::array<char, 4> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  return std::string_view(head.data(), head.size()) == "GGUF";
}

std::optional<DType> plain_dtype(std::string_view gguf_type) {
  constexpr std::pair<std::string_view, DType> known[] = {{"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16}, {"F64", DType::f64},
                                                          {"I8", DType::s8},   {"I16", DType::s16}, {"I32", DType::s32},   {"I64", DType::s64}};
  for (const auto& [name, dtype] : known) {
    if (name == gguf_type) return dtype;
  }
  return std::nullopt;
}

}  // namespace

struct WeightFile::Impl {
  std::optional<SafetensorsFile> safetensors{};
  std::optional<GgufFile> gguf{};
  std::vector<StoredTensor> tensors{};

  void list_safetensors() {
    for (const SafetensorsEntry& entry : safetensors->entries()) {
      StoredTensor tensor{.name = entry.name, .type = entry.dtype_name, .shape = entry.shape};
      // Everything but the large matrices is small enough to be copied where a file is not aligned; matrices are read unaligned.
      tensor.bytes = safetensors->raw(entry);
      if (entry.dtype && !entry.name.ends_with(".weight")) tensor.bytes = {safetensors->tensor(entry.name).as<const std::byte>(), tensor.bytes.size()};
      tensors.push_back(std::move(tensor));
    }
  }
  void list_gguf() {
    for (const GgufEntry& entry : gguf->entries()) {
      tensors.push_back({.name = entry.name, .type = std::string(entry.type->name), .shape = entry.shape, .bytes = gguf->data(entry)});
    }
  }
};

WeightFile::WeightFile(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  if (begins_with_gguf(path)) {
    impl_->gguf.emplace(path);
    impl_->list_gguf();
  } else {
    impl_->safetensors.emplace(path);
    impl_->list_safetensors();
  }
}
WeightFile::~WeightFile() = default;
WeightFile::WeightFile(WeightFile&&) noexcept = default;

const std::filesystem::path& WeightFile::path() const { return is_gguf() ? impl_->gguf->path() : impl_->safetensors->path(); }
bool WeightFile::is_gguf() const { return impl_->gguf.has_value(); }
std::span<const StoredTensor> WeightFile::tensors() const { return impl_->tensors; }
const std::map<std::string, std::string>& WeightFile::metadata() const { return is_gguf() ? impl_->gguf->metadata() : impl_->safetensors->metadata(); }

TensorView WeightFile::view(std::string_view name) const {
  if (!is_gguf()) return impl_->safetensors->tensor(name);
  const GgufEntry* entry = impl_->gguf->find(name);
  if (entry == nullptr) throw DataError(fmt::format("file '{}': has no tensor '{}'", path().string(), name));
  const auto dtype = plain_dtype(entry->type->name);
  if (!dtype) throw DataError(fmt::format("file '{}': tensor '{}' is {}, which is not a plain number format", path().string(), name, entry->type->name));
  return {const_cast<std::byte*>(impl_->gguf->data(*entry).data()), *dtype, entry->shape};  // a view has no const; writing would fault
}

void WeightFile::release(std::string_view name) const {
  if (!is_gguf()) return impl_->safetensors->release(name);
  if (const GgufEntry* entry = impl_->gguf->find(name)) impl_->gguf->release(*entry);
}

}  // namespace octavo
