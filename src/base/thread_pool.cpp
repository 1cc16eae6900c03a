#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace octavo {
namespace {

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, int(std::thread::hardware_concurrency()));
}

thread_local bool inside_pool = false;

}  // namespace

struct ThreadPool::Impl {
  std::mutex mutex;
  std::condition_variable work_ready;
  std::condition_variable work_done;
  const std::function<void(std::int64_t)>* body = nullptr;
  std::int64_t count = 0;
  std::atomic<std::int64_t> next{0};
  std::uint64_t generation = 0;
  int busy = 0;
  bool stop = false;
  std::exception_ptr failure;
  std::vector<std::jthread> workers;

  void run_share() {
    inside_pool = true;
    for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        (*body)(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next.store(count);
      }
    }
    inside_pool = false;
  }

  void worker() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      work_ready.wait(lock, [&] { return stop || generation != seen; });
      if (stop) return;
      seen = generation;
      lock.unlock();
      run_share();
      lock.lock();
      if (--busy == 0) work_done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  const int total = threads > 0 ? threads : usable_cores();
  for (int i = 1; i < total; ++i) impl_->workers.emplace_back([this] { impl_->worker(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->work_ready.notify_all();
}

int ThreadPool::size() const noexcept { return int(impl_->workers.size()) + 1; }

void ThreadPool::for_each(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  if (count <= 0) return;
  if (inside_pool || impl_->workers.empty() || count == 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->body = &body;
    impl_->count = count;
    impl_->next.store(0);
    impl_->failure = nullptr;
    impl_->busy = int(impl_->workers.size());
    ++impl_->generation;
  }
  impl_->work_ready.notify_all();
  impl_->run_share();
  std::unique_lock lock(impl_->mutex);
  impl_->work_done.wait(lock, [&] { return impl_->busy == 0; });
  impl_->body = nullptr;
  if (impl_->failure) std::rethrow_exception(impl_->failure);
}

}  // namespace octavo
