// Many small tasks on a pool, each knowing which private scratch it may use.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/thread_pool.h"

namespace octavo::cpu {

inline std::int64_t slot_count(const ThreadPool& pool, std::int64_t tasks) { return std::max<std::int64_t>(1, std::min<std::int64_t>(pool.size(), tasks)); }

// Calls body(task, slot) once for every task; calls that share a slot never overlap, slot < slot_count(pool, tasks).
// Which slot a task meets is chance, so a slot may hold scratch and nothing else.
template <class Body>
void for_each_in_slots(ThreadPool& pool, std::int64_t tasks, Body&& body) {
  std::atomic<std::int64_t> next{0};
  pool.for_each(tasks == 0 ? 0 : slot_count(pool, tasks), [&](std::int64_t slot) {
    for (std::int64_t task = next.fetch_add(1); task < tasks; task = next.fetch_add(1)) body(task, slot);
  });
}

// Calls body(first, count) for chunks of `chunk` rows.
template <class Body>
void for_each_rows(ThreadPool& pool, std::int64_t rows, std::int64_t chunk, Body&& body) {
  pool.for_each((rows + chunk - 1) / chunk, [&](std::int64_t i) { body(i * chunk, std::min(chunk, rows - i * chunk)); });
}

}  // namespace octavo::cpu
