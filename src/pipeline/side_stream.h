// Work beside other work on a GPU: a stream and a scratch of its own.
#pragma once

#include <cstdint>
#include <functional>

#include "device/event.h"
#include "ops/exec_context.h"

namespace octavo {

// The two branches of a step read the same latents and nothing of each other. Beside each other, one fills the SMs that the last wave of the other's
// kernels leaves idle, and its row ops run while the other multiplies. The bits are those of one after the other.
class SideStream {
 public:
  // Throws OutOfMemory.
  SideStream(Device device, std::int64_t scratch_bytes);

  // Enqueues what `body` does behind all that ctx.stream has been given so far.
  void start(const ExecContext& ctx, const std::function<void(ExecContext& side)>& body);
  // What ctx.stream is given from now on waits for it.
  void join(const ExecContext& ctx);

 private:
  Arena scratch_;
  Stream stream_;
  Event begun_, done_;
};

}  // namespace octavo
