// GGUF files put together by hand, right or wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::formats {

struct GgufBytes {
  std::string text{};

  static GgufBytes header(std::uint64_t tensors, std::uint64_t keys) {
    GgufBytes b;
    b.text = "GGUF";
    b.raw<std::uint32_t>(3).raw(tensors).raw(keys);
    return b;
  }
  template <class T>
  GgufBytes& raw(T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  GgufBytes& string(std::string_view value) {
    raw<std::uint64_t>(value.size());
    text += value;
    return *this;
  }
  GgufBytes& key(std::string_view name, std::uint32_t type) { return string(name).raw(type); }
  // `extents` fastest first, as in the file.
  GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& extents, std::uint32_t type, std::uint64_t offset) {
    string(name).raw(std::uint32_t(extents.size()));
    for (const std::uint64_t extent : extents) raw(extent);
    return raw(type).raw(offset);
  }
  GgufBytes& zeros(std::size_t count) {
    text.append(count, '\0');
    return *this;
  }
  GgufBytes& align(std::size_t to) { return zeros((to - text.size() % to) % to); }
};

}  // namespace octavo::formats
