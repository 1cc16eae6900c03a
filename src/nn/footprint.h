// How many bytes something will take on a GPU, told from headers before it is loaded.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace octavo::nn {

// Sums of tensors: as they are asked for, and as a CUDA driver hands them out, each in whole units of 512 bytes, above 1 MiB of 2 MiB. The second is
// predicted: drivers promise nothing.
struct Footprint {
  std::int64_t bytes = 0;
  std::int64_t allocated_bytes = 0;

  void add_tensor(std::int64_t tensor_bytes) {
    constexpr std::int64_t kSmall = 512, kLargeFrom = std::int64_t(1) << 20, kLarge = std::int64_t(1) << 21;
    const std::int64_t unit = tensor_bytes >= kLargeFrom ? kLarge : kSmall;
    bytes += tensor_bytes;
    allocated_bytes += (tensor_bytes + unit - 1) / unit * unit;
  }
  void add_tensor(DType dtype, const Shape& shape) { add_tensor(shape.elements() * std::int64_t(bytes_of(dtype))); }
  Footprint& operator+=(const Footprint& other) {
    bytes += other.bytes;
    allocated_bytes += other.allocated_bytes;
    return *this;
  }
};

// What an Arena counts of scratch that is taken and given back in scopes: the most at once, each take rounded up to 256 bytes.
class ScratchCount {
 public:
  void take(std::int64_t bytes) {
    now_ += (bytes > 0 ? bytes + 255 : 256) / 256 * 256;
    if (now_ > most_) most_ = now_;
  }
  void take(DType dtype, const Shape& shape) { take(shape.elements() * std::int64_t(bytes_of(dtype))); }
  std::int64_t mark() const { return now_; }
  void rewind(std::int64_t mark) { now_ = mark; }
  std::int64_t most() const { return most_; }

 private:
  std::int64_t now_ = 0;
  std::int64_t most_ = 0;
};

}  // namespace octavo::nn
