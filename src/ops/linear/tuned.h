// Between the tuner, which knows no op, and the GEMM catalogue, which knows no clock: keys, look-up, and the words for --explain.
#pragma once

#include <string>
#include <vector>

#include "ops/linear/gemm_problem.h"
#include "tune/store.h"

namespace octavo {

// A hash over the kernels of this build: their names and tiles. A table made with others is not used.
std::string gemm_kernel_set();

tune::ShapeKey shape_key(const GemmProblem& problem);

struct LinearChoice {
  const GemmKernel* kernel = nullptr;  // null: no kernel takes the problem on this GPU
  GemmLaunch launch{};
  bool is_tuned = false;               // measured here (or on the same model of GPU), else estimated
  double seconds = 0;                  // measured for the bucket of rows, or estimated
  std::vector<tune::Standing> lost{};  // the others, fastest first, in the same measure
};

// The kernel to run: the tuner's answer for the bucket if there is one and it takes this problem, else the estimate's. Never measures.
LinearChoice choose_linear(const GemmProblem& problem, const DeviceCaps& caps);

// The choices for one model of GPU, read from disk at the first call. One per process; choose_linear() reads it under a lock that
// record_linear() takes too.
const tune::Store& linear_store(const DeviceCaps& caps);
void record_linear(const DeviceCaps& caps, const tune::ShapeKey& shape, tune::Entry entry);
std::size_t import_linear(const DeviceCaps& caps, const std::filesystem::path& path);

// What the hardware allows: 2MNK over the tensor cores' int8 rate at the boost clock, or the bytes that must move over the memory bandwidth.
struct LinearLimit {
  double seconds = 0;
  const char* what = "";  // "tensor cores" or "memory"
};
LinearLimit limit_of(const GemmProblem& problem, const DeviceCaps& caps);

// "wgmma_sm90_128x256x128 (tuned, 372.1 µs) · lost: … +2.1 %, … · limit: tensor cores"
std::string explain(const LinearChoice& choice, const GemmProblem& problem, const DeviceCaps& caps);

}  // namespace octavo
