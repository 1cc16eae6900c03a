#include "api/quantize.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/observer.h"
#include "convert/calibration.h"
#include "convert/quantize.h"
#include "io/json.h"
#include "octavo/error.h"
#include "pipeline/pipeline.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "diffusion_pytorch_model.safetensors";
constexpr std::array<const char*, 2> kDenoisers{"transformer", "unconditional_transformer"};

struct NamedReport {
  std::string path{};
  QuantizeReport report{};
};

// Progress at most twice a second: layers of small models take less than a line.
class LineObserver final : public Observer {
 public:
  LineObserver(const QuantizeOptions& options, std::string name) : options_(options), name_(std::move(name)) {}
  void on_progress(std::string_view part, int, int step, int steps) override {
    if (part != "quantise") return;  // calibration says its own
    const auto now = std::chrono::steady_clock::now();
    if (!options_.progress || (now - last_ < std::chrono::milliseconds(500) && step != steps)) return;
    last_ = now;
    options_.progress(fmt::format("quantize: {} {}/{} tensors", name_, step, steps));
  }
  void on_advisory(std::string_view line) override {
    if (options_.progress) options_.progress(fmt::format("quantize: {}: {}", name_, line));
  }
  bool cancelled() override { return options_.cancelled && options_.cancelled(); }

 private:
  const QuantizeOptions& options_;
  std::string name_;
  std::chrono::steady_clock::time_point last_{};
};

QuantizeRecipe recipe_of(const QuantizeOptions& options) {
  QuantizeRecipe recipe;
  if (options.scheme == "convrot") {
    recipe.group = options.group;
    if (options.group == 0) throw InvalidArgument("quantize: --group 0 means no rotation; say --scheme w8a8");
  } else if (options.scheme != "w8a8") {
    throw InvalidArgument(fmt::format("quantize: --scheme '{}' is unknown; known: convrot, w8a8", options.scheme));
  }
  for (const std::string& word : options.protect) {
    if (word.empty()) throw InvalidArgument("quantize: --protect is empty; give auto, none or a pattern such as \"layers.0.*\"");
    if (word == "none") {
      recipe.protects_sensitive = false;
    } else if (word != "auto") {
      recipe.protect.push_back(word);
    }
  }
  recipe.smooth = options.smooth;
  recipe.validate();
  if (options.smooth > 0 && options.calibrate.empty()) {
    throw InvalidArgument("quantize: --smooth needs --calibrate FILE, a file with a few prompts, one a line, like those the model will be given");
  }
  if (options.smooth == 0 && !options.calibrate.empty()) throw InvalidArgument("quantize: --calibrate is used by --smooth only; give --smooth 0.5 too");
  if (options.threads < 0) throw InvalidArgument(fmt::format("quantize: --threads {} must be at least 1; leave it out for one per core", options.threads));
  return recipe;
}

std::vector<std::string> read_prompts(const std::string& path) {
  std::vector<std::string> prompts;
  std::istringstream text(read_text_argument(path, "quantize: --calibrate"));
  for (std::string line; std::getline(text, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) prompts.push_back(line);
  }
  if (prompts.empty()) throw InvalidArgument(fmt::format("quantize: --calibrate '{}' holds no prompt; write one a line", path));
  return prompts;
}

// Draws every prompt with the model's own settings in f32 and watches what the projections read. The pictures are thrown away.
void calibrate(const QuantizeOptions& options, ActivationStatistics& statistics) {
  const std::vector<std::string> prompts = read_prompts(options.calibrate);
  Pipeline pipeline({.model = options.in, .precision = precision::f32, .threads = options.threads});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (options.progress) options.progress(fmt::format("quantize: calibration prompt {}/{}", i + 1, prompts.size()));
    Request request;
    request.prompt = prompts[i];
    request.seed = i;
    pipeline.run(pipeline.plan(request), statistics, {});
  }
}

// A second name for the same bytes where the disk allows it, a copy elsewhere. What is there already stays.
void link_or_copy(const fs::path& from, const fs::path& to) {
  if (fs::exists(to)) return;
  std::error_code failure;
  fs::create_hard_link(fs::canonical(from), to, failure);
  if (failure) fs::copy_file(from, to);
}

void link_tree(const fs::path& from, const fs::path& to) {
  fs::create_directories(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    if (entry.is_directory()) {
      link_tree(entry.path(), to / entry.path().filename());
    } else if (entry.is_regular_file()) {
      link_or_copy(entry.path(), to / entry.path().filename());
    }
  }
}

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::exists(a, ignored) && fs::exists(b, ignored) && fs::equivalent(a, b, ignored);
}

NamedReport quantize_component(const QuantizeOptions& options, QuantizeRecipe recipe, const ActivationStatistics& statistics, ThreadPool& pool,
                               const fs::path& in, const fs::path& out) {
  const bool is_file = out.extension() == ".safetensors";
  fs::path file = out;
  if (!is_file) {
    std::error_code failure;
    fs::create_directories(out, failure);
    if (failure) throw InvalidArgument(fmt::format("quantize: output folder '{}' cannot be made ({})", out.string(), failure.message()));
    if (fs::exists(in / "config.json")) fs::copy_file(in / "config.json", out / "config.json", fs::copy_options::overwrite_existing);
    file = out / kFileName;
  }
  LineObserver observer(options, in.filename().string());
  recipe.activations = statistics.of(in.filename().string());
  return {file.string(), quantize_checkpoint(in, file, recipe, pool, observer)};
}

std::vector<NamedReport> quantize_folder(const QuantizeOptions& options, const QuantizeRecipe& recipe, const ActivationStatistics& statistics, ThreadPool& pool,
                                         const fs::path& in, const fs::path& out) {
  if (out.extension() == ".safetensors") {
    throw InvalidArgument(fmt::format("quantize: '{}' is a model folder, so the output must be a folder too, not '{}'", in.string(), out.string()));
  }
  std::vector<NamedReport> reports;
  for (const char* component : kDenoisers) {
    if (fs::is_directory(in / component)) reports.push_back(quantize_component(options, recipe, statistics, pool, in / component, out / component));
  }
  if (reports.empty()) throw InvalidArgument(fmt::format("quantize: '{}' has neither of the folders transformer and unconditional_transformer", in.string()));
  for (const fs::directory_entry& entry : fs::directory_iterator(in)) {
    const std::string name = entry.path().filename().string();
    if (name == kDenoisers[0] || name == kDenoisers[1]) continue;
    if (entry.is_directory()) {
      link_tree(entry.path(), out / name);
    } else if (entry.is_regular_file()) {
      link_or_copy(entry.path(), out / name);
    }
  }
  return reports;
}

std::string mebibytes(std::int64_t bytes) { return fmt::format("{:.1f} MiB", double(bytes) / (1 << 20)); }

std::string text_of(const std::vector<NamedReport>& reports) {
  std::string text;
  for (const auto& [path, report] : reports) {
    text += fmt::format("{}: {}\n  {:<44} {:>16} {:<18} {:<22} {:>8} {:>9}\n", path, report.recipe, "layer", "shape", "was", "became", "SNR dB", "outlier");
    for (const QuantizedLayer& layer : report.layers) {
      const bool was_measured = layer.relative_error > 0;
      text += fmt::format("  {:<44} {:>16} {:<18} {:<22} {:>8} {:>9}\n", layer.module, layer.shape.text(), layer.before, layer.after,
                          was_measured ? fmt::format("{:.1f}", layer.snr_db()) : "", was_measured ? fmt::format("{:.1f} rms", layer.outlier_ratio) : "");
    }
    for (const std::string& remark : report.remarks) text += fmt::format("  note: {}\n", remark);
    if (report.resumed_layers > 0) text += fmt::format("  note: {} layers were finished by an earlier run\n", report.resumed_layers);
    text += fmt::format("  {} -> {} ({:.0f} %)\n", mebibytes(report.bytes_before), mebibytes(report.bytes_after),
                        100 * double(report.bytes_after) / double(std::max<std::int64_t>(report.bytes_before, 1)));
  }
  return text;
}

std::string json_of(const std::vector<NamedReport>& reports) {
  Json list = Json::array();
  for (const auto& [path, report] : reports) {
    Json layers = Json::array();
    for (const QuantizedLayer& layer : report.layers) {
      layers.push_back({{"module", layer.module},
                        {"shape", {layer.shape[0], layer.shape[1]}},
                        {"was", layer.before},
                        {"became", layer.after},
                        {"quantized", layer.is_quantized},
                        {"group", layer.rotation_group},
                        {"relative_error", layer.relative_error},
                        {"outlier_ratio", layer.outlier_ratio},
                        {"bytes_before", layer.bytes_before},
                        {"bytes_after", layer.bytes_after}});
    }
    list.push_back({{"path", path},
                    {"recipe", report.recipe},
                    {"source_hash", report.source_hash},
                    {"bytes_before", report.bytes_before},
                    {"bytes_after", report.bytes_after},
                    {"resumed_layers", report.resumed_layers},
                    {"remarks", report.remarks},
                    {"layers", layers}});
  }
  return Json{{"files", list}}.dump(2) + "\n";
}

}  // namespace

std::string quantize_model(const QuantizeOptions& options) {
  const QuantizeRecipe recipe = recipe_of(options);
  const fs::path in = options.in, out = options.out;
  std::error_code ignored;
  if (!fs::exists(in, ignored))
    throw InvalidArgument(fmt::format("quantize: '{}' does not exist; give a model folder, a component folder or a file with weights", options.in));
  if (is_same(in, out)) throw InvalidArgument(fmt::format("quantize: input and output are the same, '{}'; give another name for the output", options.in));
  const bool is_model = fs::exists(in / "model_index.json", ignored);
  if (recipe.smooth > 0 && !is_model)
    throw InvalidArgument(fmt::format("quantize: --smooth draws pictures to calibrate, so it needs a whole model folder, not '{}'", options.in));
  LineObserver observer(options, "calibration");
  ActivationStatistics statistics(observer);
  if (recipe.smooth > 0) calibrate(options, statistics);
  ThreadPool pool(options.threads);
  std::vector<NamedReport> reports;
  if (is_model) {
    reports = quantize_folder(options, recipe, statistics, pool, in, out);
  } else {
    reports.push_back(quantize_component(options, recipe, statistics, pool, in, out));
  }
  return options.format == Format::json ? json_of(reports) : text_of(reports);
}

}  // namespace octavo
