// Seconds for the CPU benches. With one thread: processor time of the process, which a busy machine disturbs least. With more: wall time.
#pragma once

#include <ctime>

namespace octavo {

inline clockid_t& bench_clock() {
  static clockid_t clock = CLOCK_MONOTONIC;
  return clock;
}

inline void bench_by_cpu_time(bool yes) { bench_clock() = yes ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC; }

inline double bench_seconds() {
  timespec now{};
  clock_gettime(bench_clock(), &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

}  // namespace octavo
