// The row loops with an exponential in them, once per width of register. Written out instead of cloned by the compiler: the exponential
// wants fused multiply-adds, and a clone cannot ask for AVX2 and FMA together.
#include <algorithm>

#include "cpu/exp.h"
#include "cpu/isa.h"
#include "cpu/row_math.h"

namespace octavo::cpu {
namespace {

[[gnu::always_inline]] inline void exp_loop(float* x, std::int64_t count, float center) {
  for (std::int64_t k = 0; k < count; ++k) x[k] = exp_of_nonpositive(x[k] - center);
}

[[gnu::always_inline]] inline void silu_loop(float* x, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) x[k] = x[k] / (1.0f + exp_of(-x[k]));
}

[[gnu::always_inline]] inline void silu_mul_loop(float* x, const float* up, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) x[k] = x[k] / (1.0f + exp_of(-x[k])) * up[k];
}

struct Loops {
  void (*exp)(float* x, std::int64_t count, float center);
  void (*silu)(float* x, std::int64_t count);
  void (*silu_mul)(float* x, const float* up, std::int64_t count);
};

constexpr Loops kPlain{exp_loop, silu_loop, silu_mul_loop};

#if defined(__x86_64__)

[[gnu::target("avx2,fma")]] void exp_avx2(float* x, std::int64_t count, float center) { exp_loop(x, count, center); }
[[gnu::target("avx2,fma")]] void silu_avx2(float* x, std::int64_t count) { silu_loop(x, count); }
[[gnu::target("avx2,fma")]] void silu_mul_avx2(float* x, const float* up, std::int64_t count) { silu_mul_loop(x, up, count); }
constexpr Loops kAvx2{exp_avx2, silu_avx2, silu_mul_avx2};

[[gnu::target("avx512f,fma")]] void exp_avx512(float* x, std::int64_t count, float center) { exp_loop(x, count, center); }
[[gnu::target("avx512f,fma")]] void silu_avx512(float* x, std::int64_t count) { silu_loop(x, count); }
[[gnu::target("avx512f,fma")]] void silu_mul_avx512(float* x, const float* up, std::int64_t count) { silu_mul_loop(x, up, count); }
constexpr Loops kAvx512{exp_avx512, silu_avx512, silu_mul_avx512};

#endif

const Loops& loops() {
#if defined(__x86_64__)
  if (best_isa() >= Isa::avx512) return kAvx512;
  if (best_isa() >= Isa::avx2) return kAvx2;
#endif
  return kPlain;
}

}  // namespace

float exp_and_sum(float* x, std::int64_t count, float center) {
  loops().exp(x, count, center);
  return sum(x, count);
}

void silu(float* x, std::int64_t count) { loops().silu(x, count); }
void silu_mul(float* x, const float* up, std::int64_t count) { loops().silu_mul(x, up, count); }

}  // namespace octavo::cpu
