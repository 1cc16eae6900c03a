// In a build without CUDA this one test stands for all GPU tests, so that their absence shows in the report.
#include "gpu/gpu_test.h"

namespace octavo {
namespace {

TEST(Gpu, not_built) { OCTAVO_SKIP_GPU_TEST("CUDA kernels, but this build has none; configure with the 'cuda' preset"); }

}  // namespace
}  // namespace octavo
