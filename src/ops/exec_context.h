// Everything a forward call may use that is not a tensor.
#pragma once

#include <cstdint>

#include "base/observer.h"
#include "base/thread_pool.h"
#include "device/buffer.h"
#include "device/device.h"
#include "device/stream.h"

namespace octavo {

class OpTimer;

// What the denoisers' attention computes its scores from: int8 codes (ops/attention/attention_int8.h), or the floats as they come. `automatic` becomes one of
// the two where a model is opened (ops/attention/attention_choice.h); ops take it for the latter. The text encoder and the autoencoder never ask.
enum class AttentionKind : std::uint8_t { automatic, floats, int8 };

struct ExecContext {
  Device device{};
  ThreadPool* pool = nullptr;      // CPU work; never null on the CPU
  Arena* scratch = nullptr;        // temporary memory on `device`; never null
  const Stream* stream = nullptr;  // order of work on a GPU; null on the CPU
  Observer* observer = nullptr;    // may be null
  bool reference = false;          // run the plain CPU bodies: the definition, slow
  OpTimer* timer = nullptr;        // of every op, for a bench; ops/op_timer.h
  AttentionKind attention = AttentionKind::automatic;
  bool draws_weights = false;  // whether a checkpoint of holes may be loaded, whose matrices are drawn: a bench's (WeightStore::is_random)
};

}  // namespace octavo
