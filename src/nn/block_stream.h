// Weights that do not all fit: kept in host memory, copied to the device a block ahead of the one that computes. Same kernels, same bytes as resident ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/buffer.h"
#include "device/event.h"
#include "device/host_buffer.h"
#include "device/stream.h"
#include "nn/linear.h"
#include "ops/exec_context.h"

namespace octavo::nn {

// Whether layer `layer` of `layers` is one of `streamed` that are spread evenly: the copies of one find the work of resident ones beside them.
inline bool is_streamed_layer(int layer, int layers, int streamed) {
  return std::int64_t(layer + 1) * streamed / layers > std::int64_t(layer) * streamed / layers;
}

// Blocks (of one or several networks) in the order in which they are used, round and round, on two places of the device. A block's place never changes, so
// addresses in its weights stay valid and what was captured with them may be replayed.
//
//   acquire(0) [work of 0] release(0)   acquire(1) [work of 1] release(1)   ...
//                          copy of 2 into the place of 0, while 1 works
//
// An order that is broken off or skips blocks costs time, never correctness: acquire copies what is not there.
// The stream that acquire and release are given must be the same in every call (null on the CPU, where a copy is done when release returns).
class BlockStream {
 public:
  explicit BlockStream(Device device);
  ~BlockStream();
  BlockStream(const BlockStream&) = delete;
  BlockStream& operator=(const BlockStream&) = delete;

  // Moves the weights of one block's projections into host memory, page-locked for a GPU, and frees them on the device. Returns the block's number. Not
  // after start(). Projections whose weights are decoded in every forward have none to move.
  int add(ExecContext& ctx, std::span<Linear* const> linears);
  // Makes the two places, each as large as the largest block, and points the projections into them. Throws OutOfMemory.
  void start();
  // Gives the places back to the device and takes them again: their contents are gone, the addresses may differ.
  void suspend(ExecContext& ctx);
  bool is_started() const { return !places_.empty(); }

  // What is enqueued on ctx.stream from now on finds the block's weights in their place.
  void acquire(ExecContext& ctx, int block);
  // The block's weights are read by nothing enqueued after this: its place may take the next block of the order that belongs there.
  void release(ExecContext& ctx, int block);

  int size() const { return int(blocks_.size()); }
  std::int64_t largest_block_bytes() const;
  std::int64_t host_bytes() const;                             // of all blocks
  std::int64_t copied_bytes() const { return copied_bytes_; }  // to the device since the beginning

 private:
  struct Piece {
    TensorView* view = nullptr;
    std::size_t offset = 0;  // in the block, a multiple of 256
  };
  struct Block {
    std::vector<Piece> pieces{};
    HostBuffer host{};
    int place = 0;
  };
  struct Place {
    Buffer memory{};
    int holds = -1;  // the block whose copy was enqueued last
    Event copied;    // behind that copy
    Event released;  // behind the last work that read the place
  };

  void copy(int block);
  void synchronize_copies();
  void aim();

  Device device_;
  Stream copies_;
  std::vector<Block> blocks_{};
  std::vector<Place> places_{};
  std::int64_t copied_bytes_ = 0;
};

}  // namespace octavo::nn
