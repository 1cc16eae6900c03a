// What a fuzz target says when a law is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace octavo::fuzz {

// Ends the program, so that libFuzzer keeps the input and the replay test fails.
inline void check(bool holds, const char* law) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: broken: %s\n", law);
  std::abort();
}

}  // namespace octavo::fuzz
