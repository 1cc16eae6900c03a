#include "pipeline/side_stream.h"

namespace octavo {

SideStream::SideStream(Device device, std::int64_t scratch_bytes) : scratch_(device), stream_(device), begun_(device), done_(device) {
  const ArenaScope scope(scratch_);
  if (scratch_bytes > 0) scratch_.take(std::size_t(scratch_bytes), "scratch of the second branch");
}

void SideStream::start(const ExecContext& ctx, const std::function<void(ExecContext&)>& body) {
  begun_.record(*ctx.stream);
  begun_.hold(stream_);
  ExecContext side = ctx;
  side.scratch = &scratch_;
  side.stream = &stream_;
  body(side);
  done_.record(stream_);
}

void SideStream::join(const ExecContext& ctx) { done_.hold(*ctx.stream); }

}  // namespace octavo
