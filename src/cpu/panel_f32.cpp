#include "cpu/panel_kernel.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 takes its own _mm512_undefined_ps() for a mistake
#endif
#include <immintrin.h>
#endif

namespace octavo::cpu {
namespace {

// Tables of one function per tile height: kTable[rows - 1].
using Multiply = void (*)(const float* a, const float* b, std::int64_t units, float* c, std::int64_t c_stride, bool accumulate);

// Any processor: multiply and add are two roundings here, so these bits differ from the fused kernels'. numerics.md section 8 allows that
// between machines.
constexpr int kPlainRows = 4;
constexpr int kPlainColumns = 8;

void multiply_plain(const std::uint32_t* a, int rows, const std::uint32_t* b, std::int64_t units, float* c, std::int64_t c_stride, bool accumulate) {
  const auto* x = reinterpret_cast<const float*>(a);
  for (int row = 0; row < rows; ++row) {
    float sum[kPlainColumns];
    for (int n = 0; n < kPlainColumns; ++n) sum[n] = accumulate ? c[row * c_stride + n] : 0.0f;
    const auto* w = reinterpret_cast<const float*>(b);
    for (std::int64_t u = 0; u < units; ++u, w += kPlainColumns) {
      for (int n = 0; n < kPlainColumns; ++n) sum[n] += x[u * rows + row] * w[n];
    }
    for (int n = 0; n < kPlainColumns; ++n) c[row * c_stride + n] = sum[n];
  }
}

constexpr PanelKernel<float> kPlain{
    .isa = Isa::plain, .rows = kPlainRows, .columns = kPlainColumns, .block_units = 256, .block_columns = 128, .multiply = multiply_plain};

#if defined(__x86_64__)

// 6×16: twelve accumulators, two registers of b, one of a: fifteen of the sixteen that AVX2 has.
template <int Rows>
[[gnu::target("avx2,fma")]] void multiply_avx2(const float* a, const float* b, std::int64_t units, float* c, std::int64_t c_stride, bool accumulate) {
  __m256 sum[Rows][2];
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
    sum[row][0] = accumulate ? _mm256_loadu_ps(c + row * c_stride) : _mm256_setzero_ps();
    sum[row][1] = accumulate ? _mm256_loadu_ps(c + row * c_stride + 8) : _mm256_setzero_ps();
  }
  for (std::int64_t u = 0; u < units; ++u) {
    const __m256 b0 = _mm256_loadu_ps(b);
    const __m256 b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row) {
      const __m256 value = _mm256_broadcast_ss(a + row);
      sum[row][0] = _mm256_fmadd_ps(value, b0, sum[row][0]);
      sum[row][1] = _mm256_fmadd_ps(value, b1, sum[row][1]);
    }
    a += Rows;
    b += 16;
  }
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
    _mm256_storeu_ps(c + row * c_stride, sum[row][0]);
    _mm256_storeu_ps(c + row * c_stride + 8, sum[row][1]);
  }
}

void multiply_avx2_any(const std::uint32_t* a, int rows, const std::uint32_t* b, std::int64_t units, float* c, std::int64_t c_stride, bool accumulate) {
  static constexpr Multiply kTable[] = {multiply_avx2<1>, multiply_avx2<2>, multiply_avx2<3>, multiply_avx2<4>, multiply_avx2<5>, multiply_avx2<6>};
  kTable[rows - 1](reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b), units, c, c_stride, accumulate);
}

constexpr PanelKernel<float> kAvx2{.isa = Isa::avx2, .rows = 6, .columns = 16, .block_units = 256, .block_columns = 192, .multiply = multiply_avx2_any};

// 14×32: 28 accumulators, two registers of b, one of a: 31 of the 32 that AVX-512 has. Per unit 28 fused multiply-adds, 16 loads.
template <int Rows>
[[gnu::target("avx512f")]] void multiply_avx512(const float* a, const float* b, std::int64_t units, float* c, std::int64_t c_stride, bool accumulate) {
  __m512 sum[Rows][2];
#pragma GCC unroll 14
  for (int row = 0; row < Rows; ++row) {
    sum[row][0] = accumulate ? _mm512_loadu_ps(c + row * c_stride) : _mm512_setzero_ps();
    sum[row][1] = accumulate ? _mm512_loadu_ps(c + row * c_stride + 16) : _mm512_setzero_ps();
  }
  for (std::int64_t u = 0; u < units; ++u) {
    const __m512 b0 = _mm512_loadu_ps(b);
    const __m512 b1 = _mm512_loadu_ps(b + 16);
#pragma GCC unroll 14
    for (int row = 0; row < Rows; ++row) {
      const __m512 value = _mm512_set1_ps(a[row]);
      sum[row][0] = _mm512_fmadd_ps(value, b0, sum[row][0]);
      sum[row][1] = _mm512_fmadd_ps(value, b1, sum[row][1]);
    }
    a += Rows;
    b += 32;
  }
#pragma GCC unroll 14
  for (int row = 0; row < Rows; ++row) {
    _mm512_storeu_ps(c + row * c_stride, sum[row][0]);
    _mm512_storeu_ps(c + row * c_stride + 16, sum[row][1]);
  }
}

void multiply_avx512_any(const std::uint32_t* a, int rows, const std::uint32_t* b, std::int64_t units, float* c, std::int64_t c_stride, bool accumulate) {
  static constexpr Multiply kTable[] = {multiply_avx512<1>,  multiply_avx512<2>,  multiply_avx512<3>,  multiply_avx512<4>, multiply_avx512<5>,
                                        multiply_avx512<6>,  multiply_avx512<7>,  multiply_avx512<8>,  multiply_avx512<9>, multiply_avx512<10>,
                                        multiply_avx512<11>, multiply_avx512<12>, multiply_avx512<13>, multiply_avx512<14>};
  kTable[rows - 1](reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b), units, c, c_stride, accumulate);
}

constexpr PanelKernel<float> kAvx512{.isa = Isa::avx512, .rows = 14, .columns = 32, .block_units = 512, .block_columns = 256, .multiply = multiply_avx512_any};

#endif

}  // namespace

const PanelKernel<float>& f32_kernel(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return kAvx512;
  if (isa >= Isa::avx2) return kAvx2;
#endif
  (void)isa;
  return kPlain;
}

}  // namespace octavo::cpu
