// What this processor can do, as steps of one ladder. Every step has all the steps below it.
#pragma once

#include <cstdint>
#include <string_view>

namespace octavo::cpu {

enum class Isa : std::uint8_t {
  plain,   // whatever the compiler's baseline is (x86-64: SSE2)
  avx2,    // AVX2, FMA, F16C
  avx512,  // AVX-512 F, BW, DQ, VL
  vnni,    // + AVX-512 VNNI: four s8 products per 32-bit lane and instruction
  amx,     // + AMX-INT8 tiles, if the operating system lets this process use them
};

constexpr std::string_view name_of(Isa isa) {
  constexpr std::string_view names[] = {"plain", "avx2", "avx512", "vnni", "amx"};
  return names[static_cast<int>(isa)];
}

// The highest step of this machine. Asked once.
Isa best_isa();
// The step of that name. Throws InvalidArgument if there is none, or if this machine does not have it.
Isa isa_named(std::string_view name);
// best_isa(), or isa_named of the environment variable OCTAVO_CPU_ISA. Read once.
Isa active_isa();

}  // namespace octavo::cpu
