#include "cpu/isa.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "octavo/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace octavo::cpu {
namespace {

#if defined(__x86_64__)

// Tile registers are 8 KiB per thread, so Linux hands them out on request only (arch_prctl, since 5.16).
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_amx_int8() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool tiles = (d & (1u << 24)) != 0;
  const bool int8 = (d & (1u << 25)) != 0;
  return tiles && int8 && may_use_tiles();
}

Isa detect() {
  __builtin_cpu_init();
  // __builtin_cpu_supports also asks whether the operating system saves the wide registers (XGETBV).
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::plain;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & (1u << 29)) == 0) return Isa::plain;  // F16C; no processor with AVX2 is known to lack it
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return Isa::avx2;
  }
  if (!__builtin_cpu_supports("avx512vnni")) return Isa::avx512;
  return has_amx_int8() ? Isa::amx : Isa::vnni;
}

#else

Isa detect() { return Isa::plain; }

#endif

}  // namespace

Isa best_isa() {
  static const Isa isa = detect();
  return isa;
}

Isa isa_named(std::string_view name) {
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512, Isa::vnni, Isa::amx}) {
    if (name_of(isa) != name) continue;
    if (isa <= best_isa()) return isa;
    throw InvalidArgument(
        fmt::format("OCTAVO_CPU_ISA={}: this processor (or its operating system) has no {}; the most it can run is {}", name, name, name_of(best_isa())));
  }
  throw InvalidArgument(fmt::format("OCTAVO_CPU_ISA={}: unknown; known are plain, avx2, avx512, vnni, amx", name));
}

Isa active_isa() {
  static const Isa isa = [] {
    const char* wanted = std::getenv("OCTAVO_CPU_ISA");
    return wanted == nullptr || *wanted == '\0' ? best_isa() : isa_named(wanted);
  }();
  return isa;
}

}  // namespace octavo::cpu
