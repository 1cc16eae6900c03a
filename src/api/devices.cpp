#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "api/describe.h"
#include "base/build.h"
#include "cpu/isa.h"
#include "device/device.h"
#include "io/json.h"
#include "pipeline/memory.h"
#include "quant/precision.h"

namespace octavo {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "unknown CPU";
}

int usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, int(std::thread::hardware_concurrency()));
}

// The instruction sets that a CPU body may choose by.
std::vector<std::string> instruction_sets() {
  std::vector<std::string> sets;
#if defined(__x86_64__)
  const auto add = [&](bool has, const char* name) {
    if (has) sets.emplace_back(name);
  };
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512vnni"), "avx512vnni");
#endif
  return sets;
}

std::vector<std::string> precisions() {
  std::vector<std::string> names;
  for (const Precision& precision : precision::all) names.emplace_back(precision.name);
  return names;
}

// int8 and float16 MMA exist from sm_75 on, bf16 needs sm_80.
std::string gpu_use(const DeviceCaps& gpu) {
  if (gpu.sm < 75) return "none: needs compute capability 7.5";
  return precision::has_bf16(gpu.sm) ? "f32, bf16, fp16, w8a8, fp8, nf4 (auto: w8a8 if stored in int8, else bf16)"
                                     : "f32, fp16, w8a8, fp8, nf4; bf16 without tensor cores, slowly (auto: w8a8 if stored in int8, else fp16)";
}

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string text() {
  std::string lines = fmt::format("cpu     {}, {} cores usable, {:.1f} GiB available\n", cpu_name(), usable_cores(), available_memory() / kGiB);
  lines += fmt::format("        instruction sets: {}; kernels: {} (OCTAVO_CPU_ISA chooses a lower step)\n", fmt::join(instruction_sets(), " "),
                       cpu::name_of(cpu::active_isa()));
  lines += fmt::format("        precisions: {} (auto: f32)\n", fmt::join(precisions(), ", "));
  const GpuList list = list_gpus();
  for (std::size_t i = 0; i < list.gpus.size(); ++i) {
    const DeviceCaps& gpu = list.gpus[i];
    lines += fmt::format("cuda:{}  {}, sm_{}, {} SMs, {:.1f} of {:.1f} GiB free, driver {}.{}\n", i, gpu.name, gpu.sm, gpu.sm_count,
                         double(gpu.free_bytes) / kGiB, double(gpu.memory_bytes) / kGiB, gpu.driver_version / 1000, gpu.driver_version % 1000 / 10);
    lines += fmt::format("        precisions: {}\n", gpu_use(gpu));
  }
  if (list.gpus.empty()) lines += fmt::format("cuda    none: {}\n", list.reason);
  return lines;
}

std::string json() {
  Json result;
  result["cpu"] = {{"name", cpu_name()},
                   {"cores", usable_cores()},
                   {"available_bytes", std::int64_t(std::min(available_memory(), 9e18))},
                   {"instruction_sets", instruction_sets()},
                   {"kernels", cpu::name_of(cpu::active_isa())},
                   {"precisions", precisions()},
                   {"auto", precision::f32.name}};
  const GpuList list = list_gpus();
  result["gpus"] = Json::array();
  for (std::size_t i = 0; i < list.gpus.size(); ++i) {
    const DeviceCaps& gpu = list.gpus[i];
    result["gpus"].push_back({{"device", fmt::format("cuda:{}", i)},
                              {"name", gpu.name},
                              {"sm", gpu.sm},
                              {"sm_count", gpu.sm_count},
                              {"memory_bytes", gpu.memory_bytes},
                              {"free_bytes", gpu.free_bytes},
                              {"driver", gpu.driver_version},
                              {"precisions", gpu_use(gpu)}});
  }
  if (list.gpus.empty()) result["no_gpu_because"] = list.reason;
  return result.dump(2) + "\n";
}

}  // namespace

std::string describe_devices(Format format) { return format == Format::json ? json() : text(); }

std::string describe_version(Format format) {
  const char* cuda = build::has_cuda ? build::cuda_archs : "";
  if (format == Format::json) {
    return Json{{"version", version()}, {"build_type", build::type}, {"compiler", build::compiler}, {"cuda", build::has_cuda}, {"cuda_archs", cuda}}.dump(2) +
           "\n";
  }
  return fmt::format("octavo {} ({}, {}, {})\n", version(), build::type, build::compiler, build::has_cuda ? fmt::format("CUDA for {}", cuda) : "without CUDA");
}

}  // namespace octavo
