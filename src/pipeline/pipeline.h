// Request to pictures: encode, prepare, denoise, decode.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/observer.h"
#include "device/device.h"
#include "octavo/image.h"
#include "octavo/request.h"
#include "ops/exec_context.h"
#include "pipeline/request_plan.h"
#include "pipeline/residency.h"
#include "quant/precision.h"

namespace octavo {

struct PipelineOptions {
  std::filesystem::path model{};  // folder
  std::string model_name{};       // as it goes into the pictures' metadata; empty: the demo model
  Precision precision = precision::f32;
  Device device{};
  int threads = 0;
  bool cpu_reference = false;
  AttentionKind attention = AttentionKind::automatic;
  // What may be used of the device's memory. Without it a GPU gives what is free, and the CPU keeps everything in its mapped files; with it the CPU streams
  // as a GPU would, which is there for tests.
  std::optional<std::int64_t> vram_bytes{};
  bool draws_weights = false;  // a model of random weights is let in: a bench's
};

// Observer is never null. One call at a time.
class Pipeline {
 public:
  // Reads every configuration and the tokenizer; the weights wait for load().
  // Throws InvalidArgument, or DataError if the components' configurations disagree with each other.
  explicit Pipeline(const PipelineOptions& options);
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;

  RequestPlan plan(const Request& request) const;

  // Where the parts will lie for this request, and how much memory that takes: read from headers, nothing is loaded. Nothing if nobody counts (the CPU
  // without a budget). Throws OutOfMemory if the budget is too small.
  std::optional<ResidencyPlan> residency(const RequestPlan& plan, std::int64_t text_tokens) const;
  // Host to device, of streamed layers, since they were loaded.
  std::int64_t streamed_bytes() const;

  // Maps, checks and, if the precision asks for it, quantises the weights. Does nothing the second time.
  void load(Observer& observer);

  // Draws the plan's pictures one after another, in the order of their seeds: a batch gives the same bytes as its seeds one by one.
  // `finished` is called with each picture as soon as it is done.
  std::vector<Image> run(const RequestPlan& plan, Observer& observer, const std::function<void(const Image&)>& finished);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
