// Our own threads: fixed chunks handed out in order, so that the result never depends on how many threads there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace octavo {

class ThreadPool {
 public:
  // threads = 0: one per core that this process may use. The calling thread counts as one and works too.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const noexcept;

  // Calls body(i) once for every i in [0, count), on any thread, and returns when all are done.
  // The first exception that a body throws is rethrown here; the remaining indices are then skipped.
  // A call from inside a body runs serially.
  void for_each(std::int64_t count, const std::function<void(std::int64_t)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
