// Order between streams.
#pragma once

#include "device/device.h"
#include "device/stream.h"

namespace octavo {

// A point in the work of a stream that another stream can wait for. On the CPU work is done when a call returns, so there is nothing to wait for.
class Event {
 public:
  explicit Event(Device device);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  void record(const Stream& stream);      // behind everything enqueued there so far
  void hold(const Stream& stream) const;  // what is enqueued there from now on waits for the last record; for nothing if there was none

 private:
  Device device_{};
  void* handle_ = nullptr;
};

}  // namespace octavo
