// A short name for a lot of bytes.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace octavo {

// FNV-1a over 64-bit words: not against forgery, only to tell two contents apart. Where one add() ends and the next begins counts.
class ContentHash {
 public:
  void add(const std::byte* bytes, std::size_t count) {
    for (; count >= 8; bytes += 8, count -= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes, 8);
      mix(word);
    }
    std::uint64_t rest = count;
    if (count > 0) std::memcpy(&rest, bytes, count);
    mix(rest ^ (std::uint64_t(count) << 56));
  }
  void add(const std::string& text) { add(reinterpret_cast<const std::byte*>(text.data()), text.size()); }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  void mix(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x100000001b3u;
    state_ ^= state_ >> 29;
  }
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace octavo
