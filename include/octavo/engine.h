// The front door: open a model, draw pictures.
//
//   octavo::Engine engine({.model = "models/demo", .precision = "w8a8"});
//   octavo::Request request{.prompt = "three orange stars in a row on a blue background"};
//   for (const octavo::Image& image : engine.generate(request)) octavo::save_png(image, "stars.png");
//
// An Engine serves one call at a time; use one per thread. Only exceptions of error.h leave these functions,
// and what your own callbacks throw.
#pragma once

#include <cstdint>
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
  std::string model{};             // folder of the model; empty: the demo model that came with the program
  std::string precision = "auto";  // "f32", "bf16", "fp16", "w8a8"; "auto": f32 on the CPU; on a GPU w8a8 if the denoiser is stored in int8, else bf16
  std::string device = "auto";     // "cpu", "cuda", "cuda:1"; "auto": the first GPU if there is one, else the CPU
  std::int64_t vram_bytes = 0;     // GPU memory that may be used, all in all; 0: what is free less a margin. Has no meaning on the CPU
  int threads = 0;                 // CPU threads; 0: one per core that this process may use
  bool cpu_reference = false;      // run the plain CPU bodies (the definition), very slow
  std::string attention = "auto";  // of the denoisers: "bf16": on the floats of `precision`; "int8": scores from int8 codes; "auto": bf16, for now
};

// One message on the way from request to picture. `step` counts from 1 to `steps`; step 0 says that the part begins.
struct Progress {
  std::string part{};  // "load", "encode", "denoise", "decode"
  int picture = 0;     // 0-based index within the batch
  int step = 0;
  int steps = 0;
  double seconds = 0;  // since this part of this picture began
};

struct Callbacks {
  std::function<void(const Progress&)> progress{};
  std::function<void(const std::string&)> advisory{};  // one line that a person may want to know; never an error
  std::function<void(const Image&)> picture{};         // each picture as soon as it is finished
  std::function<bool()> cancelled{};                   // polled between steps and layers; true ends the call with Cancelled
};

class OCTAVO_API Engine {
 public:
  // Opens the model folder: reads its configurations and its tokenizer. The weights are mapped, checked and, where the precision
  // asks for it, quantised by the first generate() or by load(), whichever comes first.
  // Throws InvalidArgument, DataError, Unsupported.
  explicit Engine(const EngineOptions& options);
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  // The folder that was opened, and the precision that "auto" became.
  const std::string& model() const;
  const std::string& precision() const;

  // Checks a request without drawing it: returns it with every field filled in (option, then preset, then the model's defaults).
  // Throws InvalidArgument. Advisory lines go to the callback.
  Request resolve(const Request& request, const Callbacks& callbacks = {}) const;

  // Loads the weights now rather than in the first generate(). Throws DataError, OutOfMemory, Cancelled.
  void load(const Callbacks& callbacks = {});

  // Draws request.batch pictures, in the order of their seeds.
  std::vector<Image> generate(const Request& request, const Callbacks& callbacks = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
