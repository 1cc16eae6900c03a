#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/build.h"
#include "base/checked_math.h"
#include "device/backend.h"
#include "device/buffer.h"
#include "device/counters.h"
#include "device/device.h"
#include "device/event.h"
#include "device/graph.h"
#include "device/host_buffer.h"
#include "device/stream.h"
#include "octavo/error.h"

namespace octavo {
namespace {

constexpr std::size_t kCpuAlignment = 64;       // one cache line, one AVX-512 register
constexpr std::size_t kArenaAlignment = 256;    // what cudaMalloc gives
constexpr std::size_t kArenaBlock = 16u << 20;  // grows in steps of at least 16 MiB

constexpr std::size_t kCountedGpus = 64;

// A process has one memory per device, so it has one count. Sums only: nothing is decided here.
struct Count {
  std::atomic<std::int64_t> now{0}, peak{0};
};

Count& count_of(Device device) {
  static std::array<Count, kCountedGpus + 1> counts;
  return counts[device.is_cpu() ? kCountedGpus : std::min(std::size_t(device.index), kCountedGpus - 1)];
}

void count(Device device, std::int64_t bytes) noexcept {
  Count& of = count_of(device);
  const std::int64_t now = of.now += bytes;
  std::int64_t peak = of.peak;
  while (now > peak && !of.peak.compare_exchange_weak(peak, now)) {
  }
}

// $OCTAVO_GPU_SM: the compute capability to choose kernels for, as if the GPU were that old. For tests of what this machine has not.
int asked_sm(const DeviceCaps& gpu) {
  const char* wanted = std::getenv("OCTAVO_GPU_SM");
  if (wanted == nullptr || *wanted == '\0') return gpu.sm;
  int sm = 0;
  const std::string_view text = wanted;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sm);
  if (error != std::errc() || end != text.data() + text.size() || sm < 75 || sm > gpu.sm)
    throw InvalidArgument(fmt::format("OCTAVO_GPU_SM={}: {} can act as 75 to {}, its own compute capability; leave it out for that", text, gpu.name, gpu.sm));
  return sm;
}

[[noreturn]] void no_cuda(std::string_view who) {
  throw Unsupported(fmt::format("{}: this build has no CUDA; rebuild with the 'cuda' preset or use --device cpu", who));
}

}  // namespace

std::string Device::name() const { return is_cpu() ? "cpu" : fmt::format("cuda:{}", index); }

GpuList list_gpus() {
  if constexpr (build::has_cuda) {
    GpuList list = backend::cuda_list_gpus();
    for (DeviceCaps& gpu : list.gpus) gpu.sm = asked_sm(gpu);
    return list;
  }
  return {.gpus = {}, .reason = "this build has no CUDA (built without the toolkit)"};
}

const DeviceCaps& caps_of(Device device) {
  static const GpuList list = list_gpus();
  if (device.is_cpu() || device.index >= int(list.gpus.size()))
    throw Unsupported(fmt::format("device '{}': is not a GPU that is there: {}", device.name(), list.gpus.empty() ? list.reason : "its number is too high"));
  return list.gpus[std::size_t(device.index)];
}

Device parse_device(const std::string& text) {
  if (text == "cpu") return {};
  int index = 0;
  const bool is_auto = text == "auto";
  if (!is_auto && text != "cuda") {
    const std::string digits = text.starts_with("cuda:") ? text.substr(5) : "";
    if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos) {
      throw InvalidArgument(fmt::format("device '{}': unknown; known are auto, cpu, cuda, cuda:N", text));
    }
    index = std::stoi(digits);
  }
  const GpuList list = list_gpus();
  if (index < int(list.gpus.size())) return {Device::Kind::cuda, index};
  if (is_auto) return {};
  if (list.gpus.empty()) throw Unsupported(fmt::format("device '{}': no GPU can be used: {}; use --device cpu", text, list.reason));
  throw Unsupported(fmt::format("device '{}': there are {} GPUs here, cuda:0 to cuda:{}", text, list.gpus.size(), list.gpus.size() - 1));
}

Buffer::Buffer(std::size_t bytes, Device device, std::string_view what) : bytes_(bytes), device_(device) {
  if (bytes == 0) return;
  if (device.is_cpu()) {
    data_ = std::aligned_alloc(kCpuAlignment, std::size_t(round_up(std::int64_t(bytes), kCpuAlignment)));
    if (data_ == nullptr) {
      const auto free_pages = ::sysconf(_SC_AVPHYS_PAGES);
      throw OutOfMemory(fmt::format("memory: {:.1f} MiB wanted for {}, {:.1f} MiB are free; use a smaller picture, a smaller batch or --precision w8a8",
                                    double(bytes) / 1048576, what, double(free_pages) * double(::sysconf(_SC_PAGESIZE)) / 1048576));
    }
  } else {
    if constexpr (build::has_cuda) {
      data_ = backend::cuda_allocate(bytes, device, what);
    } else {
      no_cuda("memory");
    }
  }
  count(device, std::int64_t(bytes));
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  count(device_, -std::int64_t(bytes_));
  if (device_.is_cpu()) {
    std::free(data_);
  } else {
    if constexpr (build::has_cuda) backend::cuda_free(data_, device_);
  }
}

Buffer::Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

MemoryCount memory_count(Device device) {
  const Count& of = count_of(device);
  return {.now = of.now, .peak = of.peak};
}

void reset_memory_peak(Device device) {
  Count& of = count_of(device);
  of.peak = of.now.load();
}

MemoryWatch::MemoryWatch(Device device) : device_(device) {
  if (!device.is_cpu()) ++device_counters().memory_watches;
  forget();
}

MemoryWatch::~MemoryWatch() {
  if (!device_.is_cpu()) --device_counters().memory_watches;
}

std::int64_t MemoryWatch::now() const {
  if (device_.is_cpu()) return memory_count(device_).now;
  if constexpr (build::has_cuda) return backend::cuda_used_bytes(device_);
  no_cuda("memory");
}

std::int64_t MemoryWatch::look() { return device_.is_cpu() ? memory_count(device_).peak : std::max(now(), device_counters().most_used_bytes.load()); }

void MemoryWatch::forget() {
  if (device_.is_cpu()) return reset_memory_peak(device_);
  device_counters().most_used_bytes = now();
}

HostBuffer::HostBuffer(std::size_t bytes, Device user, std::string_view what) : bytes_(bytes), user_(user) {
  if (bytes == 0) return;
  if (user.is_cpu()) {
    data_ = std::aligned_alloc(kCpuAlignment, std::size_t(round_up(std::int64_t(bytes), kCpuAlignment)));
    if (data_ == nullptr) throw OutOfMemory(fmt::format("memory: {:.1f} MiB wanted for {}; close other programs", double(bytes) / 1048576, what));
  } else {
    if constexpr (build::has_cuda) {
      data_ = backend::cuda_allocate_pinned(bytes, user, what);
    } else {
      no_cuda("memory");
    }
  }
}

HostBuffer::~HostBuffer() {
  if (data_ == nullptr) return;
  if (user_.is_cpu()) {
    std::free(data_);
  } else {
    if constexpr (build::has_cuda) backend::cuda_free_pinned(data_);
  }
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), user_(other.user_) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(user_, other.user_);
  return *this;
}

void* Arena::take(std::size_t bytes, std::string_view what) {
  bytes = std::size_t(round_up(std::int64_t(std::max<std::size_t>(bytes, 1)), kArenaAlignment));
  while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].size()) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    blocks_.emplace_back(std::max(bytes, kArenaBlock), device_, what);
    std::size_t total = 0;
    for (const Buffer& block : blocks_) total += block.size();
    peak_ = total;
  }
  void* start = static_cast<std::byte*>(blocks_[block_].data()) + used_;
  used_ += bytes;
  return start;
}

void Arena::rewind(Mark mark) noexcept {
  block_ = mark.block;
  used_ = mark.used;
}

Stream::Stream(Device device) : device_(device) {
  if (device.is_cpu()) return;
  if constexpr (build::has_cuda) {
    handle_ = backend::cuda_create_stream(device);
  } else {
    no_cuda("stream");
  }
}

Stream::~Stream() {
  if constexpr (build::has_cuda) {
    if (handle_ != nullptr) backend::cuda_destroy_stream(handle_);
  }
}

void Stream::synchronize() const {
  if constexpr (build::has_cuda) {
    if (handle_ != nullptr) backend::cuda_synchronize(handle_);
  }
}

Graph::~Graph() { clear(); }

void Graph::clear() noexcept {
  if constexpr (build::has_cuda) {
    if (executable_ != nullptr) backend::cuda_destroy_graph(std::exchange(executable_, nullptr));
  }
}

void Graph::record(const Stream& stream, const std::function<void()>& body) {
  clear();
  if constexpr (build::has_cuda) {
    backend::cuda_begin_recording(stream.handle());
    try {
      body();
    } catch (...) {
      backend::cuda_drop_recording(stream.handle());
      throw;
    }
    executable_ = backend::cuda_end_recording(stream.handle());
  } else {
    no_cuda("graph");
  }
}

void Graph::launch(const Stream& stream) const {
  if constexpr (build::has_cuda) {
    backend::cuda_launch_graph(executable_, stream.handle());
  } else {
    no_cuda("graph");
  }
}

Event::Event(Device device) : device_(device) {
  if (device.is_cpu()) return;
  if constexpr (build::has_cuda) {
    handle_ = backend::cuda_create_event(device);
  } else {
    no_cuda("event");
  }
}

Event::~Event() {
  if constexpr (build::has_cuda) {
    if (handle_ != nullptr) backend::cuda_destroy_event(handle_);
  }
}

Event::Event(Event&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

void Event::record(const Stream& stream) {
  if constexpr (build::has_cuda) {
    if (handle_ != nullptr) backend::cuda_record(handle_, stream.handle());
  }
}

void Event::hold(const Stream& stream) const {
  if constexpr (build::has_cuda) {
    if (handle_ != nullptr) backend::cuda_wait(stream.handle(), handle_);
  }
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, const Stream* stream) {
  if (bytes == 0) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, bytes);
    return;
  }
  if constexpr (build::has_cuda) return backend::cuda_copy(to, to_device, from, from_device, bytes, stream == nullptr ? nullptr : stream->handle());
  no_cuda("copy");
}

}  // namespace octavo
