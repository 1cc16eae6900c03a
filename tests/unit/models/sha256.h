// SHA-256 (FIPS 180-4), for tests that pin published constants by their digest.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace octavo::test {

inline std::string sha256(std::span<const std::byte> bytes) {
  // The first 32 bits of the fractions of the square roots (8) and cube roots (64) of the first primes, computed rather than listed.
  std::vector<int> primes;
  for (int n = 2; primes.size() < 64; ++n) {
    bool is_prime = true;
    for (const int p : primes) is_prime = is_prime && n % p != 0;
    if (is_prime) primes.push_back(n);
  }
  const auto fraction = [](long double x) { return std::uint32_t((x - std::floor(x)) * 4294967296.0L); };
  std::array<std::uint32_t, 8> h{};
  std::array<std::uint32_t, 64> k{};
  for (std::size_t i = 0; i < 8; ++i) h[i] = fraction(std::sqrt((long double)primes[i]));
  for (std::size_t i = 0; i < 64; ++i) k[i] = fraction(std::cbrt((long double)primes[i]));

  std::vector<std::uint8_t> message;
  for (const std::byte b : bytes) message.push_back(std::uint8_t(b));
  message.push_back(0x80);
  while (message.size() % 64 != 56) message.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8) message.push_back(std::uint8_t((std::uint64_t(bytes.size()) * 8) >> shift));

  for (std::size_t start = 0; start < message.size(); start += 64) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t j = 0; j < 4; ++j) w[i] = (w[i] << 8) | message[start + 4 * i + j];
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    std::array<std::uint32_t, 8> v = h;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
      const std::uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
      const std::uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
      const std::uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      v = {t1 + t2, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) h[i] += v[i];
  }
  std::string text;
  for (const std::uint32_t word : h) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(word >> shift) & 15u];
  }
  return text;
}

}  // namespace octavo::test
