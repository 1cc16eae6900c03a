// What every GPU test stands on: a device, a stream, scratch, and a skip that says why.
// OCTAVO_REQUIRE_GPU=1 (set on machines that have a GPU) turns every such skip into a failure.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "base/thread_pool.h"
#include "device/buffer.h"
#include "device/device.h"
#include "device/stream.h"
#include "ops/exec_context.h"
#include "tensor/tensor.h"

// Ends the test: skipped, or failed if a GPU was promised. Use in a test body or in SetUp (it returns).
#define OCTAVO_SKIP_GPU_TEST(reason)                                                                                \
  do {                                                                                                              \
    if (::octavo::testing::gpu_required()) FAIL() << "OCTAVO_REQUIRE_GPU is set, but this test needs " << (reason); \
    GTEST_SKIP() << "needs " << (reason);                                                                           \
  } while (false)

namespace octavo::testing {

inline bool gpu_required() {
  const char* value = std::getenv("OCTAVO_REQUIRE_GPU");
  return value != nullptr && std::string(value) != "0" && !std::string(value).empty();
}

// The first GPU with what a forward call needs. One per test: a failed kernel cannot leave work behind for the next.
struct Gpu {
  DeviceCaps caps{};
  Device device{Device::Kind::cuda, 0};
  Stream stream{device};
  Arena scratch{device};

  ExecContext context() { return {.device = device, .scratch = &scratch, .stream = &stream}; }
};

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const GpuList list = list_gpus();
    if (list.gpus.empty()) OCTAVO_SKIP_GPU_TEST("a GPU: " + list.reason);
    gpu_ = std::make_unique<Gpu>();
    gpu_->caps = list.gpus.front();
    seed_ = fresh_seed();
    random_.seed(seed_);
    RecordProperty("seed", std::to_string(seed_));
  }
  void TearDown() override {
    if (HasFailure()) std::printf("inputs: OCTAVO_TEST_SEED=%llu repeats them\n", static_cast<unsigned long long>(seed_));
  }

  Gpu& gpu() { return *gpu_; }
  int sm() const { return gpu_->caps.sm; }
  ExecContext gpu_context() { return gpu_->context(); }
  ExecContext cpu_context() { return {.device = {}, .pool = &pool_, .scratch = &cpu_scratch_}; }
  std::mt19937_64& random() { return random_; }

  // Dense copies; to_cpu waits for the stream first. Sources must be dense.
  Tensor to_gpu(const TensorView& from) {
    Tensor to(from.dtype, from.shape, gpu_->device, "test input");
    copy_bytes(to.view().data, gpu_->device, from.data, from.device, from.bytes(), &gpu_->stream);
    gpu_->stream.synchronize();  // the host source may die before the copy ran
    return to;
  }
  Tensor to_cpu(const TensorView& from) {
    Tensor to(from.dtype, from.shape, Device{}, "test output");
    copy_bytes(to.view().data, Device{}, from.data, from.device, from.bytes(), &gpu_->stream);
    gpu_->stream.synchronize();
    return to;
  }

 private:
  // New inputs on every run; OCTAVO_TEST_SEED repeats a run that failed.
  static std::uint64_t fresh_seed() {
    if (const char* value = std::getenv("OCTAVO_TEST_SEED")) return std::strtoull(value, nullptr, 10);
    return std::random_device{}();
  }

  std::unique_ptr<Gpu> gpu_{};
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_{};
  ThreadPool pool_{};
  Arena cpu_scratch_{Device{}};
};

}  // namespace octavo::testing
