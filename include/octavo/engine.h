// The front door: open a model, draw pictures.
//
//   octavo::Engine engine({.model = "models/demo", .precision = "w8a8"});
//   octavo::Request request{.prompt = "three orange stars in a row on a blue background"};
//   for (const octavo::Image& image : engine.generate(request)) octavo::save_png(image, "stars.png");
//
// An Engine serves one call at a time; use one per thread. Only exceptions of error.h leave these functions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "octavo/error.h"
#include "octavo/image.h"
#include "octavo/request.h"
#include "octavo/version.h"

namespace octavo {

struct EngineOptions {
  std::string model{};                 // folder of the model; empty: the demo model that came with the program
  std::string precision = "auto";      // "f32", "bf16", "w8a8"; "auto": f32 on the CPU
  std::string device = "auto";         // "auto", "cpu", "cuda", "cuda:1"
  int threads = 0;                     // CPU threads; 0: one per core
  bool cpu_reference = false;          // run the plain CPU bodies (the definition), very slow
};

// One message on the way from request to picture. `step` counts from 1 within "denoise".
struct Progress {
  std::string part{};                  // "load", "encode", "denoise", "decode"
  int picture = 0;                     // 0-based index within the batch
  int step = 0;
  int steps = 0;
  double seconds = 0;                  // since the part began
};

struct Callbacks {
  std::function<void(const Progress&)> progress{};
  std::function<void(const std::string&)> advisory{};  // one line that a person may want to know; never an error
  std::function<bool()> cancelled{};                   // polled between steps; true ends the call with Cancelled
};

class Engine {
 public:
  // Opens the model folder: reads the configurations, maps the weights, quantises where the precision asks for it.
  // Throws InvalidArgument, DataError, Unsupported, OutOfMemory.
  explicit Engine(const EngineOptions& options, const Callbacks& callbacks = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  // Checks a request against the model without running it; returns the request with every field filled in.
  Request resolve(const Request& request) const;

  // Draws request.batch pictures, in the order of their seeds.
  std::vector<Image> generate(const Request& request, const Callbacks& callbacks = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
