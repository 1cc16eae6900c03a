// Many small tasks on a pool, each knowing which private scratch it may use.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/thread_pool.h"

namespace octavo::cpu {

// Calls body(task, slot) once for every task, on at most `slots` threads; calls that share a slot never overlap.
// Which slot a task meets is chance, so a slot may hold scratch and nothing else. One slot: the caller does it all.
template <class Body>
void for_each_in_slots(ThreadPool& pool, std::int64_t slots, std::int64_t tasks, Body&& body) {
  std::atomic<std::int64_t> next{0};
  pool.for_each(std::min(slots, tasks), [&](std::int64_t slot) {
    for (std::int64_t task = next.fetch_add(1); task < tasks; task = next.fetch_add(1)) body(task, slot);
  });
}

// Waking a thread costs some 10 µs; work of fewer elements than this is done sooner by the caller alone.
inline constexpr std::int64_t kWorthSharing = 1 << 15;

// Calls body(first, count) for runs of rows that cover [0, rows): runs of `chunk`, or one run if there is too little to share.
// For bodies whose result does not depend on how the rows are cut.
template <class Body>
void for_each_rows(ThreadPool& pool, std::int64_t rows, std::int64_t columns, std::int64_t chunk, Body&& body) {
  if (rows * columns < kWorthSharing || pool.size() == 1) {
    if (rows > 0) body(std::int64_t(0), rows);
    return;
  }
  pool.for_each((rows + chunk - 1) / chunk, [&](std::int64_t i) { body(i * chunk, std::min(chunk, rows - i * chunk)); });
}

}  // namespace octavo::cpu
