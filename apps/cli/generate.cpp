#include "generate.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "api/describe.h"
#include "interrupt.h"
#include "numbers.h"
#include "octavo/engine.h"
#include "picture_options.h"
#include "progress.h"

namespace octavo::cli {
namespace {

namespace fs = std::filesystem;

std::string read_prompt(const GenerateArguments& arguments) {
  if (arguments.prompt && arguments.prompt_file) throw InvalidArgument("generate: --prompt and --prompt-file exclude each other; give one of them");
  if (arguments.prompt) return *arguments.prompt;
  if (!arguments.prompt_file) throw InvalidArgument("generate: a prompt is missing; give --prompt \"three orange stars\" or --prompt-file FILE");
  std::string text = read_text_argument(*arguments.prompt_file, "generate: --prompt-file");
  // Some editors begin a file with a byte-order mark, which says that it is UTF-8 and is no part of the text.
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  // Editors and echo end a line of plain text with a newline that nobody means. A JSON caption goes to the model byte for byte.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && text[first] == '{';
  if (!is_json && text.ends_with('\n')) {
    text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
  }
  return text;
}

Request to_request(const GenerateArguments& arguments) {
  Request request = to_sized_request("generate", arguments);
  request.prompt = read_prompt(arguments);
  request.preset = arguments.preset;
  if (arguments.guidance) request.guidance = to_float_list("generate: --guidance", *arguments.guidance);
  if (arguments.mu) request.mu = to_double("generate: --mu", *arguments.mu);
  if (arguments.std_dev) request.std_dev = to_double("generate: --std", *arguments.std_dev);
  if (arguments.seed) request.seed = to_seed("generate: --seed", *arguments.seed);
  if (arguments.batch) request.batch = to_int("generate: --batch", *arguments.batch);
  // Here and not only with the rest of the request: every picture's path is tried before the model is opened.
  constexpr int kMostPictures = 10'000;
  if (request.batch < 1 || request.batch > kMostPictures) {
    throw InvalidArgument(fmt::format("generate: --batch {} must be at least 1 and at most {}", request.batch, kMostPictures));
  }
  if (arguments.schedule_end) request.schedule_end = to_schedule_end("generate: --schedule-end", *arguments.schedule_end);
  if (arguments.noise) request.noise = to_noise_source("generate: --noise", *arguments.noise);
  request.force = arguments.force;
  return request;
}

EngineOptions to_engine_options(const GenerateArguments& arguments) {
  EngineOptions options = to_engine_options("generate", arguments);
  if (arguments.threads) {
    options.threads = to_int("generate: --threads", *arguments.threads);
    if (options.threads < 1)
      throw InvalidArgument(fmt::format("generate: --threads {}: at least 1 thread is needed; leave the option out for one per core", options.threads));
  }
  options.cpu_reference = arguments.cpu_reference;
  return options;
}

// Where each picture goes: the path itself for one, name-SEED.png for several. Every path has been proven writable.
std::vector<std::string> output_paths(const GenerateArguments& arguments, const Request& request) {
  const std::string output = arguments.output.value_or(fmt::format("octavo-{}.png", request.seed));
  if (output == "-") {
    if (request.batch > 1) throw InvalidArgument(fmt::format("generate: --output - takes one picture, but --batch is {}; give a file name", request.batch));
    if (arguments.json) throw InvalidArgument("generate: --output - and --json both want standard output; give a file name");
    if (::isatty(STDOUT_FILENO) == 1) throw InvalidArgument("generate: --output - would write a PNG to the terminal; redirect it or give a file name");
    return {output};
  }
  const fs::path path = output;
  std::string ending = path.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  if (!ending.empty() && ending != ".png") {
    throw InvalidArgument(fmt::format("generate: --output '{}': pictures are written as PNG; end the name in .png", output));
  }
  std::vector<std::string> paths;
  for (int i = 0; i < request.batch; ++i) {
    const std::uint64_t seed = request.seed + std::uint64_t(i);
    const std::string extension = path.has_extension() ? path.extension().string() : ".png";
    const fs::path numbered = path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), seed, extension);
    const std::string name = !arguments.output ? fmt::format("octavo-{}.png", seed) : request.batch == 1 ? output : numbered.string();
    paths.push_back(check_output_path(name, "generate: --output"));
  }
  return paths;
}

// What the work reads and what it writes, and what it writes twice, must be different files however they are spelled.
void refuse_one_file_twice(const GenerateArguments& arguments, const Request& request, const std::vector<std::string>& paths) {
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code ignored;
    if (fs::exists(a, ignored) && fs::exists(b, ignored)) return fs::equivalent(a, b, ignored);
    return fs::weakly_canonical(fs::absolute(a, ignored), ignored) == fs::weakly_canonical(fs::absolute(b, ignored), ignored);
  };
  const auto refuse = [&](const char* option, const std::string& path, const char* other) {
    throw InvalidArgument(fmt::format("generate: {} and {} are the same file '{}'; give two names", option, other, path));
  };
  const auto refuse_if_read = [&](const std::string& path, const char* option) {
    if (request.noise && same(request.noise->path, path)) refuse("--noise", path, option);
    if (arguments.prompt_file && *arguments.prompt_file != "-" && same(*arguments.prompt_file, path)) refuse("--prompt-file", path, option);
    for (const LoraSource& lora : request.loras) {
      if (same(lora.path, path)) refuse("--lora", path, option);
    }
  };
  for (const std::string& path : paths) {
    if (path == "-") continue;
    if (request.dump_path && same(*request.dump_path, path)) refuse("--dump", path, "--output");
    refuse_if_read(path, "--output");
  }
  if (request.dump_path) refuse_if_read(*request.dump_path, "--dump");
}

// Nor may anything be written over a file of the model, which is mapped while the pictures are drawn, or beside one, where it would be taken for weights.
void refuse_files_of_the_model(const Request& request, const std::vector<std::string>& paths, const std::string& model) {
  for (const std::string& path : paths) {
    if (path != "-") check_not_of_model(path, model, "generate: --output");
  }
  if (request.dump_path) check_not_of_model(*request.dump_path, model, "generate: --dump");
}

// The most memory that this process ever held in RAM, mapped weights included.
std::int64_t peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t(usage.ru_maxrss) * 1024;
}

}  // namespace

void print_result(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) throw DataError(fmt::format("standard output: writing failed ({})", std::strerror(errno)));
}

void generate(const GenerateArguments& arguments) {
  // Whatever can be refused is refused before the first byte of weights is read.
  Request request = to_request(arguments);
  const EngineOptions options = to_engine_options(arguments);
  const std::vector<std::string> paths = output_paths(arguments, request);
  if (arguments.dump == "-") throw InvalidArgument("generate: --dump - has no meaning: tensors go to a file only; give a file name, ./- for one of that name");
  if (arguments.dump) request.dump_path = check_output_path(*arguments.dump, "generate: --dump");
  refuse_one_file_twice(arguments, request, paths);

  catch_interrupts();
  const auto start = std::chrono::steady_clock::now();
  ProgressDisplay display(arguments.quiet, request.batch);
  std::vector<DrawnPicture> drawn;
  Callbacks callbacks;
  callbacks.progress = [&](const Progress& progress) { display.show(progress); };
  callbacks.advisory = [&](const std::string& line) { display.note(line); };
  callbacks.cancelled = [] { return was_interrupted(); };
  callbacks.picture = [&](const Image& image) {
    const std::string& path = paths[drawn.size()];
    if (path == "-") {
      print_result(png_bytes(image));
    } else {
      save_png(image, path);
      display.clear();
      if (!arguments.json) print_result(path + "\n");
    }
    Image without_pixels = image;
    without_pixels.rgb.clear();
    drawn.push_back({path, std::move(without_pixels)});
  };

  Engine engine(options);
  refuse_files_of_the_model(request, paths, engine.model());
  if (options.model.empty()) display.note(fmt::format("drawing with the demo model in {}; --model DIR chooses another", engine.model()));
  engine.generate(request, callbacks);
  display.clear();

  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::int64_t peak = peak_memory_bytes();
  if (arguments.json) print_result(describe_pictures(drawn, seconds, peak, request.dump_path.value_or("")));
  if (!arguments.quiet) {
    say(fmt::format("done: {} picture{} in {:.1f} s, peak memory {:.0f} MiB\n", drawn.size(), drawn.size() == 1 ? "" : "s", seconds, double(peak) / 1048576));
  }
}

}  // namespace octavo::cli
