// int8 × int8 → int32, exact for every s8 value, -128 included. Four members; all give the same sums.
#include <cstring>

#include "cpu/panel_kernel.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 takes its own _mm512_undefined_ps() for a mistake
#endif
#include <immintrin.h>
#endif

namespace octavo::cpu {
namespace {

using Multiply = void (*)(const std::uint32_t* a, const std::uint32_t* b, std::int64_t units, std::int32_t* c, std::int64_t c_stride, bool accumulate);

// Pairs of s16: the low half of a unit is the even k.
void load_pairs(const std::int8_t* from, std::int64_t count, std::uint32_t* to) {
  auto* wide = reinterpret_cast<std::int16_t*>(to);
  for (std::int64_t k = 0; k < count; ++k) wide[k] = from[k];
  if (count % 2 != 0) wide[count] = 0;
}

// Four s8 as they lie.
void load_quads(const std::int8_t* from, std::int64_t count, std::uint32_t* to) {
  if (count % 4 != 0) to[count / 4] = 0;
  std::memcpy(to, from, std::size_t(count));
}

constexpr int kPlainRows = 4;
constexpr int kPlainColumns = 8;

void multiply_plain(const std::uint32_t* a, int rows, const std::uint32_t* b, std::int64_t units, std::int32_t* c, std::int64_t c_stride, bool accumulate) {
  const auto* x = reinterpret_cast<const std::int16_t*>(a);
  for (int row = 0; row < rows; ++row) {
    std::uint32_t sum[kPlainColumns];  // unsigned: wrapping is defined
    for (int n = 0; n < kPlainColumns; ++n) sum[n] = accumulate ? std::uint32_t(c[row * c_stride + n]) : 0u;
    const auto* w = reinterpret_cast<const std::int16_t*>(b);
    for (std::int64_t u = 0; u < units; ++u, w += 2 * kPlainColumns) {
      const std::int32_t x0 = x[2 * (u * rows + row)];
      const std::int32_t x1 = x[2 * (u * rows + row) + 1];
      for (int n = 0; n < kPlainColumns; ++n) sum[n] += std::uint32_t(x0 * w[2 * n] + x1 * w[2 * n + 1]);
    }
    for (int n = 0; n < kPlainColumns; ++n) c[row * c_stride + n] = std::int32_t(sum[n]);
  }
}

constexpr PanelKernel<std::int32_t> kPlain{.isa = Isa::plain,
                                           .rows = kPlainRows,
                                           .columns = kPlainColumns,
                                           .elements_per_unit = 2,
                                           .block_units = 256,
                                           .block_columns = 128,
                                           .multiply = multiply_plain,
                                           .load_tile_row = load_pairs,
                                           .load_panel_row = load_pairs};

#if defined(__x86_64__)

// 6×16 with vpmaddwd: s16 · s16 + s16 · s16 in s32, at most 2 · 128² = 32768, so nothing saturates (vpmaddubsw would).
template <int Rows>
[[gnu::target("avx2")]] void multiply_avx2(const std::uint32_t* a, const std::uint32_t* b, std::int64_t units, std::int32_t* c, std::int64_t c_stride,
                                           bool accumulate) {
  __m256i sum[Rows][2];
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
    const auto* start = reinterpret_cast<const __m256i*>(c + row * c_stride);
    sum[row][0] = accumulate ? _mm256_loadu_si256(start) : _mm256_setzero_si256();
    sum[row][1] = accumulate ? _mm256_loadu_si256(start + 1) : _mm256_setzero_si256();
  }
  for (std::int64_t u = 0; u < units; ++u) {
    const __m256i b0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    const __m256i b1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b) + 1);
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row) {
      const __m256i value = _mm256_set1_epi32(std::int32_t(a[row]));
      sum[row][0] = _mm256_add_epi32(sum[row][0], _mm256_madd_epi16(value, b0));
      sum[row][1] = _mm256_add_epi32(sum[row][1], _mm256_madd_epi16(value, b1));
    }
    a += Rows;
    b += 16;
  }
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
    auto* start = reinterpret_cast<__m256i*>(c + row * c_stride);
    _mm256_storeu_si256(start, sum[row][0]);
    _mm256_storeu_si256(start + 1, sum[row][1]);
  }
}

void multiply_avx2_any(const std::uint32_t* a, int rows, const std::uint32_t* b, std::int64_t units, std::int32_t* c, std::int64_t c_stride, bool accumulate) {
  static constexpr Multiply kTable[] = {multiply_avx2<1>, multiply_avx2<2>, multiply_avx2<3>, multiply_avx2<4>, multiply_avx2<5>, multiply_avx2<6>};
  kTable[rows - 1](a, b, units, c, c_stride, accumulate);
}

constexpr PanelKernel<std::int32_t> kAvx2{.isa = Isa::avx2,
                                          .rows = 6,
                                          .columns = 16,
                                          .elements_per_unit = 2,
                                          .block_units = 256,
                                          .block_columns = 192,
                                          .multiply = multiply_avx2_any,
                                          .load_tile_row = load_pairs,
                                          .load_panel_row = load_pairs};

// 14×32 with vpdpbusd: u8 · s8, four products and the sum in s32 without saturation. x becomes x + 128 (u8), and
//   Σ x·w = Σ (x + 128)·w - 128·Σ w;   the last term of each column is one more row of the panel, filled by seal.
// All modulo 2^32, so exact whenever the true sum fits.
constexpr int kVnniColumns = 32;

// 768 KiB: processors with AVX512-VNNI have 1 MiB of L2 or more (client Ice Lake, with half of that, then reads from L3).
constexpr std::int64_t kPackedUnits = 192 * 1024;

void load_biased_quads(const std::int8_t* from, std::int64_t count, std::uint32_t* to) {
  load_quads(from, count, to);
  for (std::int64_t u = 0; u < (count + 3) / 4; ++u) to[u] ^= 0x80808080u;  // the padding becomes 128 too, and meets zero weights
}

[[gnu::target("avx512f,avx512vnni")]] void seal_vnni(std::uint32_t* b, std::int64_t units) {
  const __m512i bias = _mm512_set1_epi8(char(0x80));
  for (int half = 0; half < kVnniColumns; half += 16) {
    __m512i sum = _mm512_setzero_si512();
    for (std::int64_t u = 0; u < units; ++u) sum = _mm512_dpbusd_epi32(sum, bias, _mm512_loadu_si512(b + u * kVnniColumns + half));
    _mm512_storeu_si512(b + units * kVnniColumns + half, _mm512_sub_epi32(_mm512_setzero_si512(), sum));
  }
}

template <int Rows>
[[gnu::target("avx512f,avx512vnni")]] void multiply_vnni(const std::uint32_t* a, const std::uint32_t* b, std::int64_t units, std::int32_t* c,
                                                         std::int64_t c_stride, bool accumulate) {
  __m512i sum[Rows][2];
  const __m512i start_0 = _mm512_loadu_si512(b + units * kVnniColumns);
  const __m512i start_1 = _mm512_loadu_si512(b + units * kVnniColumns + 16);
#pragma GCC unroll 14
  for (int row = 0; row < Rows; ++row) {
    sum[row][0] = accumulate ? _mm512_add_epi32(start_0, _mm512_loadu_si512(c + row * c_stride)) : start_0;
    sum[row][1] = accumulate ? _mm512_add_epi32(start_1, _mm512_loadu_si512(c + row * c_stride + 16)) : start_1;
  }
  for (std::int64_t u = 0; u < units; ++u) {
    const __m512i b0 = _mm512_loadu_si512(b);
    const __m512i b1 = _mm512_loadu_si512(b + 16);
#pragma GCC unroll 14
    for (int row = 0; row < Rows; ++row) {
      const __m512i value = _mm512_set1_epi32(std::int32_t(a[row]));
      sum[row][0] = _mm512_dpbusd_epi32(sum[row][0], value, b0);
      sum[row][1] = _mm512_dpbusd_epi32(sum[row][1], value, b1);
    }
    a += Rows;
    b += kVnniColumns;
  }
#pragma GCC unroll 14
  for (int row = 0; row < Rows; ++row) {
    _mm512_storeu_si512(c + row * c_stride, sum[row][0]);
    _mm512_storeu_si512(c + row * c_stride + 16, sum[row][1]);
  }
}

void multiply_vnni_any(const std::uint32_t* a, int rows, const std::uint32_t* b, std::int64_t units, std::int32_t* c, std::int64_t c_stride, bool accumulate) {
  static constexpr Multiply kTable[] = {multiply_vnni<1>,  multiply_vnni<2>,  multiply_vnni<3>,  multiply_vnni<4>, multiply_vnni<5>,
                                        multiply_vnni<6>,  multiply_vnni<7>,  multiply_vnni<8>,  multiply_vnni<9>, multiply_vnni<10>,
                                        multiply_vnni<11>, multiply_vnni<12>, multiply_vnni<13>, multiply_vnni<14>};
  kTable[rows - 1](a, b, units, c, c_stride, accumulate);
}

constexpr PanelKernel<std::int32_t> kVnni{.isa = Isa::vnni,
                                          .rows = 14,
                                          .columns = kVnniColumns,
                                          .elements_per_unit = 4,
                                          .block_units = 512,
                                          .block_columns = 256,
                                          .packed_units = kPackedUnits,
                                          .multiply = multiply_vnni_any,
                                          .load_tile_row = load_biased_quads,
                                          .seal = seal_vnni};

// 32×32 with AMX: four s32 tiles of 16×16, two tiles of x (16 rows × 64 k) and two of w (16 units × 16 columns).
// The tile registers hold whole 64-byte rows, so K is padded to 16 units and rows to 16.
// Blocks of 128 units: a strip of x is 16 KiB and leaves L1 to w; with 256 the loads, not the products, set the pace (0.096 against 0.084 ticks
// per 16 lanes, 0.050 for bare tdpbssd). Misaligned tile rows would double the time; the driver's panels begin on cache lines.
constexpr int kTile = 16;

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {kTile, kTile, kTile, kTile, kTile, kTile, kTile, kTile};
};
static_assert(sizeof(TileConfig) == 64, "LDTILECFG reads 64 bytes");

// Static: g++ 12 believes that the instruction reads 8 bytes only and drops the stores to a local one.
constexpr TileConfig kTileConfig{};

[[gnu::target("amx-tile")]] void enter_amx() { _tile_loadconfig(&kTileConfig); }

[[gnu::target("amx-tile")]] void leave_amx() { _tile_release(); }

[[gnu::target("amx-tile,amx-int8")]] void multiply_amx(const std::uint32_t* a, int rows, const std::uint32_t* b, std::int64_t units, std::int32_t* c,
                                                       std::int64_t c_stride, bool accumulate) {
  constexpr std::int64_t kColumns = 2 * kTile;
  const std::int64_t a_bytes = units * 4;
  const std::int64_t c_bytes = c_stride * 4;
  const bool two = rows > kTile;
  std::int32_t* c_low = c + kTile * c_stride;
  asm volatile("" ::: "memory");  // g++ 12 does not know that tile loads read memory
  if (accumulate) {
    _tile_loadd(0, c, c_bytes);
    _tile_loadd(1, c + kTile, c_bytes);
    if (two) {
      _tile_loadd(2, c_low, c_bytes);
      _tile_loadd(3, c_low + kTile, c_bytes);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t u = 0; u < units; u += kTile) {
    _tile_loadd(4, a + u, a_bytes);
    _tile_loadd(6, b + u * kColumns, kColumns * 4);
    _tile_loadd(7, b + u * kColumns + kTile, kColumns * 4);
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    if (two) {
      _tile_loadd(5, a + kTile * units + u, a_bytes);
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
    }
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + kTile, c_bytes);
  if (two) {
    _tile_stored(2, c_low, c_bytes);
    _tile_stored(3, c_low + kTile, c_bytes);
  }
}

constexpr PanelKernel<std::int32_t> kAmx{.isa = Isa::amx,
                                         .rows = 2 * kTile,
                                         .row_step = kTile,
                                         .columns = 2 * kTile,
                                         .elements_per_unit = 4,
                                         .unit_step = kTile,
                                         .block_units = 128,
                                         .block_columns = 256,
                                         .packed_units = kPackedUnits,
                                         .rows_stay = true,
                                         .multiply = multiply_amx,
                                         .enter = enter_amx,
                                         .leave = leave_amx};

#endif

}  // namespace

const PanelKernel<std::int32_t>& s8_kernel(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::amx) return kAmx;
  if (isa >= Isa::vnni) return kVnni;
  if (isa >= Isa::avx2) return kAvx2;
#endif
  (void)isa;
  return kPlain;
}

}  // namespace octavo::cpu
