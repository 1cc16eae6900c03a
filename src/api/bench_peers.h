// What cuBLASLt does with the same shapes. Loaded at run time; never linked, never needed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/linear/linear_timer.h"

namespace octavo {

struct Peer {
  std::string name{};                              // "cublaslt bf16"
  std::string note{};                              // "best of 8 algorithms", or why it is absent
  std::function<void(std::size_t set)> enqueue{};  // empty if absent
};

class CublasLt {
 public:
  // Looks for libcublasLt in $OCTAVO_CUBLASLT and by its names of CUDA 13 and 12.
  explicit CublasLt(LinearTimer& timer);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Empty if it could be loaded, else why not.
  const std::string& missing() const;
  // The peers for the shape that the timer is prepared for: bf16; INT8 with our dequantisation to the same bf16; FP8 per tensor and per row and column.
  // Each is the fastest of the algorithms that the library's heuristic names. Valid until the next call.
  std::vector<Peer> prepare(const LinearShape& shape);
  // True if INT8 with dequantisation and `y` of set 0 hold the same bits (the first rows are compared). Both must have run on set 0.
  bool int8_equals(const void* y_bf16, const LinearShape& shape);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
