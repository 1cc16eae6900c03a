#include "pipeline/noise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace octavo {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53u;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u;  // golden ratio
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85u;  // sqrt(3) - 1
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {std::uint32_t(product1 >> 32) ^ counter[1] ^ key[0], std::uint32_t(product1), std::uint32_t(product0 >> 32) ^ counter[3] ^ key[1],
               std::uint32_t(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

void draw_noise(std::uint64_t seed, std::span<float> out) {
  const std::array<std::uint32_t, 2> key{std::uint32_t(seed), std::uint32_t(seed >> 32)};
  for (std::size_t first = 0; first < out.size(); first += 4) {
    const std::uint64_t index = first / 4;
    const auto words = philox4x32({std::uint32_t(index), std::uint32_t(index >> 32), 0, 0}, key);
    std::array<float, 4> values{};
    for (std::size_t pair = 0; pair < 4; pair += 2) {
      const double u1 = (double(words[pair]) + 1) * 0x1p-32;  // in (0, 1]: the logarithm is finite
      const double u2 = double(words[pair + 1]) * 0x1p-32;
      const double radius = std::sqrt(-2 * std::log(u1));
      values[pair] = float(radius * std::cos(2 * std::numbers::pi * u2));
      values[pair + 1] = float(radius * std::sin(2 * std::numbers::pi * u2));
    }
    std::copy_n(values.begin(), std::min<std::size_t>(4, out.size() - first), out.begin() + std::ptrdiff_t(first));
  }
}

}  // namespace octavo
