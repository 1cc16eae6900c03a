// One function, several machine codes: the loader picks the widest that this processor runs.
// Only for loops whose every float step is one IEEE operation (-ffp-contract=off), so that all copies give the same bits.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#define OCTAVO_CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OCTAVO_CPU_CLONES
#endif
