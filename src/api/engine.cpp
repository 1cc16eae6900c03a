#include "octavo/engine.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <new>
#include <utility>

#include "api/named_options.h"
#include "api/resources.h"
#include "base/clock.h"
#include "base/observer.h"
#include "device/device.h"
#include "pipeline/model_index.h"
#include "pipeline/model_memory.h"
#include "pipeline/pipeline.h"

namespace octavo {
namespace {

constexpr int kMaxThreads = 1024;

// What a caller's own function threw, on its way back to the caller through code that translates exceptions.
struct CallbackFailure {
  std::exception_ptr failure;
};

template <class Function, class... Args>
auto call_back(const Function& function, Args&&... args) {
  try {
    return function(std::forward<Args>(args)...);
  } catch (...) {
    throw CallbackFailure{std::current_exception()};
  }
}

// Carries messages of the house to the caller's functions and stamps them with the time since their part began.
class CallbackObserver final : public Observer {
 public:
  explicit CallbackObserver(const Callbacks& callbacks) : callbacks_(callbacks) {}

  void on_progress(std::string_view part, int picture, int step, int steps) override {
    if (part != part_ || picture != picture_) {
      part_ = part;
      picture_ = picture;
      clock_ = {};
    }
    if (callbacks_.progress)
      call_back(callbacks_.progress, Progress{.part = part_, .picture = picture, .step = step, .steps = steps, .seconds = clock_.seconds()});
  }
  void on_advisory(std::string_view line) override {
    if (callbacks_.advisory) call_back(callbacks_.advisory, std::string(line));
  }
  bool cancelled() override { return callbacks_.cancelled && call_back(callbacks_.cancelled); }

 private:
  const Callbacks& callbacks_;
  std::string part_{};
  int picture_ = -1;
  Stopwatch clock_{};
};

// Runs `body`; what leaves is one of error.h, or what the caller's own functions threw.
template <class Body>
auto translated(Body&& body) {
  try {
    return body();
  } catch (const CallbackFailure& own) {
    std::rethrow_exception(own.failure);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("octavo: an allocation failed; use a smaller --width and --height or close other programs");
  } catch (const std::filesystem::filesystem_error& failure) {
    throw InvalidArgument(fmt::format("file: {}; check the path and its permissions", failure.what()));
  } catch (const std::exception& failure) {
    throw InternalError(fmt::format("octavo {}: {}; please report this with the request", version(), failure.what()));
  }
}

Precision precision_of(const EngineOptions& options, Device device, const std::filesystem::path& model) {
  if (const std::optional<Precision> named = precision_named("generate", options.precision)) return *named;
  return device.is_cpu() ? precision::f32 : stored_precision(ModelIndex::read(model), caps_of(device).sm);
}

void check_vram(const EngineOptions& options) {
  if (options.vram_bytes < 0) throw InvalidArgument(fmt::format("generate: --vram is {} bytes; give a size like 12GB, or leave it out", options.vram_bytes));
  if (options.vram_bytes > 0 && options.device == "cpu") {
    throw InvalidArgument("generate: --vram limits the memory of a GPU, but --device is cpu; leave one of them out");
  }
}

PipelineOptions pipeline_options(const EngineOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    throw InvalidArgument(fmt::format("generate: --threads {} must be between 1 and {}; leave it out for one per core", options.threads, kMaxThreads));
  }
  const std::filesystem::path model = options.model.empty() ? default_model() : std::filesystem::path(options.model);
  const Device device = options.cpu_reference && options.device == "auto" ? Device{} : parse_device(options.device);
  if (options.cpu_reference && !device.is_cpu())
    throw InvalidArgument(fmt::format("generate: --cpu-reference runs the plain CPU bodies; it does not go with --device {}", options.device));
  check_vram(options);
  PipelineOptions chosen{.model = model,
                         .model_name = options.model,
                         .precision = precision_of(options, device, model),
                         .device = device,
                         .threads = options.threads,
                         .cpu_reference = options.cpu_reference,
                         .attention = attention_named("generate", options.attention)};
  if (!device.is_cpu() && options.vram_bytes > 0) chosen.vram_bytes = options.vram_bytes;
  return chosen;
}

}  // namespace

struct Engine::Impl {
  PipelineOptions options;
  Pipeline pipeline;
  std::string model;
  std::string precision;

  bool ignores_vram;

  explicit Impl(const EngineOptions& given)
      : options(pipeline_options(given)),
        pipeline(options),
        model(options.model.string()),
        precision(options.precision.name),
        ignores_vram(given.vram_bytes > 0 && options.device.is_cpu()) {}

  RequestPlan plan(const Request& request, const Callbacks& callbacks) const {
    RequestPlan plan = pipeline.plan(request);
    if (callbacks.advisory) {
      for (const std::string& line : plan.advisories) call_back(callbacks.advisory, line);
      if (ignores_vram)
        call_back(callbacks.advisory, std::string("--vram limits the memory of a GPU; this picture is drawn on the CPU, where it has no meaning"));
    }
    return plan;
  }
};

Engine::Engine(const EngineOptions& options) : impl_(translated([&] { return std::make_unique<Impl>(options); })) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

const std::string& Engine::model() const { return impl_->model; }
const std::string& Engine::precision() const { return impl_->precision; }

Request Engine::resolve(const Request& request, const Callbacks& callbacks) const {
  return translated([&] { return impl_->plan(request, callbacks).request; });
}

void Engine::load(const Callbacks& callbacks) {
  CallbackObserver observer(callbacks);
  translated([&] { impl_->pipeline.load(observer); });
}

std::vector<Image> Engine::generate(const Request& request, const Callbacks& callbacks) {
  CallbackObserver observer(callbacks);
  const auto finished = [&](const Image& image) {
    if (callbacks.picture) call_back(callbacks.picture, image);
  };
  return translated([&] { return impl_->pipeline.run(impl_->plan(request, callbacks), observer, finished); });
}

}  // namespace octavo
