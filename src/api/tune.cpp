#include "api/tune.h"

#include "api/bench.h"
#include "api/gpu_bench.h"
#include "api/linear_shapes.h"
#include "base/build.h"

namespace octavo {

// A build without CUDA has no GPU, so bench_gpu() throws, saying so; a wrong --shapes is reported first on every build.
std::string tune_kernels(const TuneOptions& options) {
  parse_linear_shapes("tune", options.shapes);
  bench_gpu("tune", options.device);
  if constexpr (build::has_cuda) return tune_on_gpu(options);
  return {};
}

std::string bench_linear(const BenchOptions& options) {
  parse_linear_shapes("bench linear", options.shapes);
  bench_gpu("bench linear", options.device);
  if constexpr (build::has_cuda) return bench_linear_on_gpu(options);
  return {};
}

std::string bench_producers(const BenchOptions& options) {
  bench_gpu("bench producers", options.device);
  if constexpr (build::has_cuda) return bench_producers_on_gpu(options);
  return {};
}

}  // namespace octavo
