// How progress travels up and cancellation travels down.
#pragma once

#include <string_view>

namespace octavo {

class Observer {
 public:
  virtual ~Observer() = default;
  // A part ("load", "encode", "denoise", "decode") reached `step` of `steps` for picture `picture` (0-based).
  virtual void on_progress(std::string_view /*part*/, int /*picture*/, int /*step*/, int /*steps*/) {}
  // One line that a person may want to know; never an error.
  virtual void on_advisory(std::string_view /*line*/) {}
  // Polled between steps and between layers. True: stop soon; the caller throws Cancelled.
  virtual bool cancelled() { return false; }
};

}  // namespace octavo
