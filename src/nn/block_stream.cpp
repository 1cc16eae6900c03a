#include "nn/block_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked_math.h"
#include "octavo/error.h"

namespace octavo::nn {
namespace {

constexpr int kPlaces = 2;
constexpr std::int64_t kAlignment = 256;  // as cudaMalloc: kernels were promised no less for a weight of its own

}  // namespace

BlockStream::BlockStream(Device device) : device_(device), copies_(device) {}

BlockStream::~BlockStream() {
  try {
    synchronize_copies();   // host memory must outlive them
  } catch (const Error&) {  // the device is lost; whoever works on it has heard of it
  }
}

void BlockStream::synchronize_copies() { copies_.synchronize(); }

int BlockStream::add(ExecContext& ctx, std::span<Linear* const> linears) {
  if (is_started()) throw InternalError("block stream: a block is added after the start");
  Block block;
  block.place = size() % kPlaces;
  std::int64_t bytes = 0;
  for (Linear* linear : linears) {
    for (TensorView* view : linear->weight_views()) {
      block.pieces.push_back({view, std::size_t(bytes)});
      bytes = round_up(bytes + std::int64_t(view->bytes()), kAlignment);
    }
  }
  block.host = HostBuffer(std::size_t(bytes), device_, "the weights of a streamed layer");
  for (const Piece& piece : block.pieces) {
    copy_bytes(static_cast<std::byte*>(block.host.data()) + piece.offset, Device{}, piece.view->data, piece.view->device, piece.view->bytes(), ctx.stream);
  }
  if (ctx.stream != nullptr) ctx.stream->synchronize();
  for (Linear* linear : linears) linear->let_go();
  for (const Piece& piece : block.pieces) {  // never read from there: until the start nothing may be computed
    piece.view->data = nullptr;
    piece.view->device = device_;
  }
  blocks_.push_back(std::move(block));
  return size() - 1;
}

void BlockStream::start() {
  if (is_started() || blocks_.empty()) return;
  for (int i = 0; i < std::min(kPlaces, size()); ++i) {
    places_.push_back({.memory = Buffer(std::size_t(largest_block_bytes()), device_, "the place of streamed layers"),
                       .holds = -1,
                       .copied = Event(device_),
                       .released = Event(device_)});
  }
  aim();
}

void BlockStream::aim() {
  for (const Block& block : blocks_) {
    auto* memory = static_cast<std::byte*>(places_[std::size_t(block.place)].memory.data());
    for (const Piece& piece : block.pieces) piece.view->data = memory + piece.offset;
  }
}

void BlockStream::suspend(ExecContext& ctx) {
  if (ctx.stream != nullptr) ctx.stream->synchronize();
  synchronize_copies();
  places_.clear();
}

// Into its place, behind the work that read what was there.
void BlockStream::copy(int block) {
  const Block& from = blocks_[std::size_t(block)];
  Place& place = places_[std::size_t(from.place)];
  place.released.hold(copies_);
  copy_bytes(place.memory.data(), device_, from.host.data(), Device{}, from.host.size(), device_.is_cpu() ? nullptr : &copies_);
  place.copied.record(copies_);
  place.holds = block;
  copied_bytes_ += std::int64_t(from.host.size());
}

void BlockStream::acquire(ExecContext& ctx, int block) {
  if (!is_started()) throw InternalError(fmt::format("block stream: block {} is asked for before the start", block));
  Place& place = places_[std::size_t(blocks_[std::size_t(block)].place)];
  if (place.holds != block) {
    // Whoever used the place last may have been stopped before its release.
    if (ctx.stream != nullptr) place.released.record(*ctx.stream);
    copy(block);
  }
  if (ctx.stream != nullptr) place.copied.hold(*ctx.stream);
}

void BlockStream::release(ExecContext& ctx, int block) {
  const int index = blocks_[std::size_t(block)].place;
  if (ctx.stream != nullptr) places_[std::size_t(index)].released.record(*ctx.stream);
  int next = block;
  do next = (next + 1) % size();
  while (blocks_[std::size_t(next)].place != index);
  if (next != block) copy(next);
}

std::int64_t BlockStream::largest_block_bytes() const {
  std::int64_t largest = 0;
  for (const Block& block : blocks_) largest = std::max(largest, std::int64_t(block.host.size()));
  return largest;
}

std::int64_t BlockStream::host_bytes() const {
  std::int64_t sum = 0;
  for (const Block& block : blocks_) sum += std::int64_t(block.host.size());
  return sum;
}

}  // namespace octavo::nn
