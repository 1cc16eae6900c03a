// A clock for W8A8 linears on a GPU: Gaussian codes, operands rotated through more than the L2 cache, CUDA events. CUDA builds only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/buffer.h"
#include "device/stream.h"
#include "ops/linear/gemm_problem.h"
#include "ops/linear/tuned.h"
#include "tune/contest.h"

namespace octavo {

struct LinearShape {
  std::string name{};  // "qkv"; may be empty
  std::int64_t m = 0;
  std::int64_t m2 = 0;  // rows of a second problem in the same launch; 0: none
  std::int64_t n = 0;
  std::int64_t k = 0;
  GemmEpilogue epilogue = GemmEpilogue::plain;
  DType out = DType::bf16;

  double operations() const { return 2.0 * double(m + m2) * double(n) * double(k); }
};

// `bytes` of device memory filled with copies of `pattern`, end to end.
Buffer filled_with(std::span<const std::byte> pattern, std::size_t bytes, Device device, const Stream& stream, std::string_view what);

class LinearTimer {
 public:
  LinearTimer(Device device, DeviceCaps caps);
  ~LinearTimer();
  LinearTimer(const LinearTimer&) = delete;
  LinearTimer& operator=(const LinearTimer&) = delete;

  Device device() const;
  const DeviceCaps& caps() const;
  const Stream& stream() const;

  // Allocates and fills the operands of `shape`; throws OutOfMemory. As many sets as it takes to leave the L2 behind, at most 16.
  void prepare(const LinearShape& shape);
  std::size_t sets() const;
  const GemmProblem& problem(std::size_t set) const;

  // Seconds per run of `repeats` runs, each on the next set.
  double time(const GemmKernel& kernel, const GemmLaunch& launch, int repeats, bool is_first);
  // The same for anything that enqueues work on stream(); `enqueue` gets the set to use.
  double time(int repeats, const std::function<void(std::size_t set)>& enqueue);
  // Runs `kernel` for that long, so that clocks settle.
  void warm_up(double seconds);

  // Scratch on the device, kept until a larger one is asked for.
  void* workspace(std::int64_t bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct TunedShape {
  tune::ShapeKey key{};
  tune::Entry entry{};
  double spent = 0;  // seconds
  std::vector<tune::Result> standings{};
};

// Measures which kernel and raster group run `shape` best. Does not record it. Throws Unsupported if no kernel takes it.
TunedShape tune_linear(LinearTimer& timer, const LinearShape& shape);

struct Regret {
  double seconds = 0;  // of the tuned choice
  double best = 0;     // of the best of all candidates and raster groups, timed exhaustively and again beside the choice
  std::string best_id{};
  double value() const { return seconds / best - 1; }
};
Regret regret_of(LinearTimer& timer, const LinearShape& shape, const tune::Entry& entry);

}  // namespace octavo
