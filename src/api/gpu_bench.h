// What only a build with CUDA has: the measuring halves of tune.h and bench.h. Defined in *_cuda.cpp files.
#pragma once

#include <string>

#include "api/bench.h"
#include "api/tune.h"

namespace octavo {

std::string tune_on_gpu(const TuneOptions& options);
std::string bench_linear_on_gpu(const BenchOptions& options);
std::string bench_producers_on_gpu(const BenchOptions& options);

}  // namespace octavo
