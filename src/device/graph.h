// GPU work recorded once and launched again as one piece: what a CPU needs milliseconds to enqueue starts without gaps.
#pragma once

#include <functional>

#include "device/stream.h"

namespace octavo {

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  bool is_recorded() const noexcept { return executable_ != nullptr; }
  // Records what `body` enqueues on `stream`; none of it runs. Pointers and scalars are kept as they are now. `body` must not wait, nor allocate on the GPU;
  // what it throws passes through, with nothing recorded. Throws DeviceError if the work cannot be recorded.
  void record(const Stream& stream, const std::function<void()>& body);
  // Enqueues the recorded work. Throws DeviceError.
  void launch(const Stream& stream) const;
  void clear() noexcept;

 private:
  void* executable_ = nullptr;  // cudaGraphExec_t
};

}  // namespace octavo
