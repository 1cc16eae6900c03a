#include "cpu/convert.h"

#include <bit>
#include <cstring>

#include "cpu/isa.h"
#include "cpu/target.h"
#include "tensor/tensor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace octavo::cpu {
namespace {

OCTAVO_CPU_CLONES
void load_bf16(const std::uint16_t* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(std::uint32_t(from[i]) << 16);
}

OCTAVO_CPU_CLONES
void store_bf16(const float* from, std::int64_t count, std::uint16_t* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x0040u;
    to[i] = std::uint16_t((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

#if defined(__x86_64__)

[[gnu::target("avx2,f16c")]] void load_f16(const std::uint16_t* from, std::int64_t count, float* to) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < count; ++i) to[i] = _cvtsh_ss(from[i]);
}

#endif

}  // namespace

void load_floats(const void* from, DType dtype, std::int64_t count, float* to) {
  if (dtype == DType::bf16) return load_bf16(static_cast<const std::uint16_t*>(from), count, to);
#if defined(__x86_64__)
  if (dtype == DType::f16 && best_isa() >= Isa::avx2) return load_f16(static_cast<const std::uint16_t*>(from), count, to);
#endif
  load_as_float(from, dtype, count, to);
}

void store_floats(const float* from, std::int64_t count, DType dtype, void* to) {
  if (dtype == DType::bf16) return store_bf16(from, count, static_cast<std::uint16_t*>(to));
  store_from_float(from, count, dtype, to);
}

}  // namespace octavo::cpu
