// Transposes rows of 32-bit units into panels: blocks of 16×16 (AVX-512) or 8×8 (AVX2) in registers.
#include <algorithm>

#include "cpu/panel_kernel.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 takes its own _mm512_undefined_ps() for a mistake
#endif
#include <immintrin.h>
#endif

namespace octavo::cpu {
namespace {

void interleave_plain(const std::uint32_t* from, std::int64_t stride, int rows, std::int64_t units, int width, std::uint32_t* to) {
  for (std::int64_t u = 0; u < units; ++u) {
    for (int row = 0; row < width; ++row) to[u * width + row] = row < rows ? from[row * stride + u] : 0u;
  }
}

#if defined(__x86_64__)

// Eight rows of eight units, transposed in place.
[[gnu::target("avx2"), gnu::always_inline]] inline void transpose(__m256 (&r)[8]) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  __m256 s[8];
  for (int i = 0; i < 8; i += 4) {
    s[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    s[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    s[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    s[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x31);
  }
}

[[gnu::target("avx2")]] void interleave_avx2(const std::uint32_t* from, std::int64_t stride, int rows, std::int64_t units, int width, std::uint32_t* to) {
  for (int first = 0; first < width; first += 8) {
    const int here = std::clamp(rows - first, 0, 8);
    for (std::int64_t u = 0; u < units; u += 8) {
      const int count = int(std::min<std::int64_t>(8, units - u));
      const __m256i lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
      __m256 r[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        const auto* row = reinterpret_cast<const float*>(from + (first + i) * stride + u);
        r[i] = i >= here ? _mm256_setzero_ps() : count == 8 ? _mm256_loadu_ps(row) : _mm256_maskload_ps(row, lanes);
      }
      transpose(r);
      // Stores are whole registers; what spills over a narrow width is overwritten by the next unit, or is slack.
      for (int i = 0; i < count; ++i) _mm256_storeu_ps(reinterpret_cast<float*>(to + (u + i) * width + first), r[i]);
    }
  }
}

// Sixteen rows of sixteen units, transposed in place: pairs and quads within 128-bit lanes, then the lanes as a 4×4 matrix.
[[gnu::target("avx512f"), gnu::always_inline]] inline void transpose(__m512 (&r)[16]) {
  __m512 t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 low = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);   // lanes 0, 2 of both
    const __m512 high = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);  // lanes 1, 3 of both
    const __m512 low_2 = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    const __m512 high_2 = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    t[i] = _mm512_shuffle_f32x4(low, low_2, 0x88);
    t[i + 8] = _mm512_shuffle_f32x4(low, low_2, 0xdd);
    t[i + 4] = _mm512_shuffle_f32x4(high, high_2, 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(high, high_2, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

[[gnu::target("avx512f")]] void interleave_avx512(const std::uint32_t* from, std::int64_t stride, int rows, std::int64_t units, int width, std::uint32_t* to) {
  for (int first = 0; first < width; first += 16) {
    const int here = std::clamp(rows - first, 0, 16);
    for (std::int64_t u = 0; u < units; u += 16) {
      const int count = int(std::min<std::int64_t>(16, units - u));
      const auto lanes = __mmask16((1u << count) - 1u);
      __m512 r[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        r[i] = i >= here ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(lanes, from + (first + i) * stride + u);
      }
      transpose(r);
      float* target = reinterpret_cast<float*>(to + u * width + first);
      // Stores are whole registers; what spills over a narrow width is overwritten by the next unit, or is slack.
      if (count == 16) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) _mm512_storeu_ps(target + std::int64_t(i) * width, r[i]);
      } else {
        for (int i = 0; i < count; ++i) _mm512_storeu_ps(target + std::int64_t(i) * width, r[i]);
      }
    }
  }
}

#endif

}  // namespace

void interleave(Isa isa, const std::uint32_t* from, std::int64_t stride, int rows, std::int64_t units, int width, std::uint32_t* to) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return interleave_avx512(from, stride, rows, units, width, to);
  if (isa >= Isa::avx2) return interleave_avx2(from, stride, rows, units, width, to);
#endif
  interleave_plain(from, stride, rows, units, width, to);
}

}  // namespace octavo::cpu
