// The i-th number of a seed: the arithmetic that host and device share.
#pragma once

#include <cstdint>

#include "cuda/host_device.h"

namespace octavo {

// splitmix64 (Steele, Lea, Flood 2014) of the counter, its four 16-bit fields added and centred: variance 4 (2^32 - 1) / 12.
OCTAVO_HOST_DEVICE int random_sum(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return int(z & 0xffff) + int((z >> 16) & 0xffff) + int((z >> 32) & 0xffff) + int(z >> 48) - 131070;
}

constexpr float kRandomUnit = 1.0f / 37837.23f;  // one over the spread of random_sum, 2^16 / sqrt(3)

}  // namespace octavo
