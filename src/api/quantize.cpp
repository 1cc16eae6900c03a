#include "api/quantize.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/output_tree.h"
#include "api/quantize_pictures.h"
#include "base/files.h"
#include "base/observer.h"
#include "convert/calibration.h"
#include "convert/quantize.h"
#include "io/json.h"
#include "octavo/error.h"
#include "receipt/page.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "diffusion_pytorch_model.safetensors";
constexpr std::array<const char*, 2> kDenoisers{"transformer", "unconditional_transformer"};

constexpr std::size_t kReportPictures = 4;

// Progress at most twice a second: layers of small models take less than a line.
class LineObserver final : public Observer {
 public:
  LineObserver(const QuantizeOptions& options, std::string name) : options_(options), name_(std::move(name)) {}
  void on_progress(std::string_view part, int, int step, int steps) override {
    if (part != "quantise" && part != "measure") return;  // calibration says its own
    const auto now = std::chrono::steady_clock::now();
    if (!options_.progress || (now - last_ < std::chrono::milliseconds(500) && step != steps)) return;
    last_ = now;
    options_.progress(fmt::format("quantize: {} {}{}/{} tensors", name_, part == "measure" ? "measured " : "", step, steps));
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
    } else if (word == "auto") {
      recipe.protects_worst = true;
    } else {
      recipe.protect.push_back(word);
    }
  }
  if (options.budget) recipe.budget = *options.budget / 100;
  if (options.budget && !recipe.protects_worst) throw InvalidArgument("quantize: --budget says how much --protect auto may keep; give --protect auto too");
  recipe.smooth = options.smooth;
  recipe.validate();
  if (!options.calibrate.empty() && options.smooth == 0 && !recipe.protects_worst && options.report.empty()) {
    throw InvalidArgument("quantize: --calibrate is used by --smooth, --protect auto and --report; give one of them too");
  }
  if ((options.picture_size || options.picture_steps) && options.smooth == 0 && !recipe.protects_worst && options.report.empty()) {
    throw InvalidArgument("quantize: --picture-size and --picture-steps are used by --smooth, --protect auto and --report; give one of them too");
  }
  if (options.picture_size && (*options.picture_size < 16 || *options.picture_size > 2048 || *options.picture_size % 16 != 0)) {
    throw InvalidArgument(fmt::format("quantize: --picture-size {} must be a multiple of 16 from 16 to 2048", *options.picture_size));
  }
  if (options.picture_steps && *options.picture_steps < 1) {
    throw InvalidArgument(fmt::format("quantize: --picture-steps {} must be at least 1", *options.picture_steps));
  }
  if (options.threads < 0) throw InvalidArgument(fmt::format("quantize: --threads {} must be at least 1; leave it out for one per core", options.threads));
  return recipe;
}

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::exists(a, ignored) && fs::exists(b, ignored) && fs::equivalent(a, b, ignored);
}

ReceiptFile quantize_component(const QuantizeOptions& options, QuantizeRecipe recipe, const ActivationStatistics* statistics, ThreadPool& pool,
                               OutputTree& tree, const fs::path& in, const fs::path& out) {
  const bool is_file = out.extension() == ".safetensors";
  fs::path file = out;
  if (!is_file) {
    tree.make_folder(out);
    if (fs::exists(in / "config.json")) tree.copy(in / "config.json", out / "config.json");
    file = out / kFileName;
  }
  tree.expect_file(file);
  const std::string component = in.filename().string();
  LineObserver observer(options, component);
  if (statistics != nullptr) recipe.activations = &statistics->of(component);
  ReceiptFile done{.component = component, .path = file.string(), .report = quantize_checkpoint(in, file, recipe, pool, observer)};
  if (statistics == nullptr) return done;
  for (const auto& [module, input] : *recipe.activations) done.inputs[module] = summarize(input);
  return done;
}

// Weights that another model left in the output would be loaded with this one's.
void refuse_strangers(const fs::path& in, const fs::path& out) {
  std::error_code ignored;
  if (!fs::is_directory(out, ignored)) return;
  for (const fs::directory_entry& component : fs::directory_iterator(out)) {
    if (!component.is_directory()) continue;
    const std::string name = component.path().filename().string();
    const bool is_denoiser = name == kDenoisers[0] || name == kDenoisers[1];
    if (is_denoiser && component.is_symlink())
      throw InvalidArgument(
          fmt::format("output '{}': is a link, and what it leads to would be changed; remove it, or choose another output", component.path().string()));
    for (const fs::directory_entry& entry : fs::directory_iterator(component)) {
      const std::string file = entry.path().filename().string();
      if (!is_weight_file(file) && !file.ends_with(".index.json")) continue;
      const bool belongs = is_denoiser ? file == kFileName && fs::is_directory(in / name, ignored) : fs::exists(in / name / file, ignored);
      if (!belongs) {
        throw InvalidArgument(
            fmt::format("output '{}': is of another model, '{}' has no such part; remove it, or choose another output", entry.path().string(), in.string()));
      }
    }
  }
}

std::vector<ReceiptFile> quantize_folder(const QuantizeOptions& options, const QuantizeRecipe& recipe, const ActivationStatistics* statistics, ThreadPool& pool,
                                         OutputTree& tree, const fs::path& in, const fs::path& out) {
  std::vector<ReceiptFile> files;
  for (const char* component : kDenoisers) {
    if (fs::is_directory(in / component)) files.push_back(quantize_component(options, recipe, statistics, pool, tree, in / component, out / component));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(in)) {
    const std::string name = entry.path().filename().string();
    if (name == kDenoisers[0] || name == kDenoisers[1]) continue;
    if (entry.is_directory()) {
      tree.take_tree(entry.path(), out / name);
    } else if (entry.is_regular_file()) {
      tree.take(entry.path(), out / name);
    }
  }
  return files;
}

// Of a model folder without its denoisers.
std::int64_t other_bytes(const fs::path& model) {
  std::int64_t bytes = 0;
  for (const fs::directory_entry& part : fs::directory_iterator(model)) {
    if (!part.is_directory() || part.path().filename() == kDenoisers[0] || part.path().filename() == kDenoisers[1]) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(part)) {
      if (entry.is_regular_file()) bytes += std::int64_t(entry.file_size());
    }
  }
  return bytes;
}

void check_paths(const QuantizeOptions& options, const QuantizeRecipe& recipe, bool is_model) {
  const fs::path in = options.in, out = options.out;
  std::error_code ignored;
  if (!fs::exists(in, ignored))
    throw InvalidArgument(fmt::format("quantize: '{}' does not exist; give a model folder, a component folder or a file with weights", options.in));
  if (is_same(in, out)) throw InvalidArgument(fmt::format("quantize: input and output are the same, '{}'; give another name for the output", options.in));
  if (is_model) {
    if (out.extension() == ".safetensors") {
      throw InvalidArgument(fmt::format("quantize: '{}' is a model folder, so the output must be a folder too, not '{}'", options.in, options.out));
    }
    if (!fs::is_directory(in / kDenoisers[0]) && !fs::is_directory(in / kDenoisers[1])) {
      throw InvalidArgument(fmt::format("quantize: '{}' has neither of the folders {} and {}", options.in, kDenoisers[0], kDenoisers[1]));
    }
    const fs::path inner = fs::weakly_canonical(out, ignored).lexically_relative(fs::canonical(in, ignored));
    if (!inner.empty() && *inner.begin() != "..") {
      throw InvalidArgument(fmt::format("quantize: the output '{}' lies inside the input '{}'; give a place beside it", options.out, options.in));
    }
    refuse_strangers(in, out);
    return;
  }
  const char* asked = recipe.smooth > 0 ? "--smooth" : recipe.protects_worst ? "--protect auto" : nullptr;
  if (asked != nullptr) {
    throw InvalidArgument(
        fmt::format("quantize: {} draws pictures to see what the layers read, so it needs a whole model folder, not '{}'", asked, options.in));
  }
}

// report.html and report.json, tried before the work starts.
struct ReportFiles {
  AtomicFile page, data;
  ReportFiles(OutputTree& tree, const fs::path& folder) : page(made(tree, folder) / "report.html"), data(folder / "report.json") {}
  void write(const Receipt& receipt) {
    const std::string html = receipt_page(receipt), json = receipt_json(receipt);
    page.write(std::as_bytes(std::span(html)));
    data.write(std::as_bytes(std::span(json)));
    page.commit();
    data.commit();
  }

 private:
  static const fs::path& made(OutputTree& tree, const fs::path& folder) {
    tree.make_folder(folder);
    tree.expect_file(folder / "report.html");
    tree.expect_file(folder / "report.json");
    return folder;
  }
};

std::string mebibytes(std::int64_t bytes) { return fmt::format("{:.1f} MiB", double(bytes) / (1 << 20)); }

std::string text_of(const Receipt& receipt, const std::string& page) {
  std::string text;
  for (const ReceiptFile& file : receipt.files) {
    const QuantizeReport& report = file.report;
    text += fmt::format("{}: {}\n  {:<44} {:>16} {:<18} {:<22} {:>8} {:>9} {:>9}\n", file.path, report.recipe, "layer", "shape", "was", "became", "SNR dB",
                        "outlier", "output");
    for (const QuantizedLayer& layer : report.layers) {
      const bool was_measured = layer.relative_error > 0;
      text += fmt::format("  {:<44} {:>16} {:<18} {:<22} {:>8} {:>9} {:>9}\n", layer.module, layer.shape.text(), layer.before, layer.after,
                          was_measured ? fmt::format("{:.1f}", snr_db(layer.relative_error)) : "",
                          was_measured ? fmt::format("{:.1f} rms", layer.outlier_ratio) : "",
                          layer.is_quantized && layer.was_measured() ? fmt::format("{:.2f} %", 100 * layer.output_error) : "");
    }
    for (const std::string& remark : report.remarks) text += fmt::format("  note: {}\n", remark);
    if (report.resumed_layers > 0) text += fmt::format("  note: {} layers were finished by an earlier run\n", report.resumed_layers);
    text += fmt::format("  {} -> {} ({:.0f} %)\n", mebibytes(report.bytes_before), mebibytes(report.bytes_after),
                        100 * double(report.bytes_after) / double(std::max<std::int64_t>(report.bytes_before, 1)));
  }
  if (page.empty()) return text;
  const Judgement judgement = receipt.judge();
  text += fmt::format("{}: {}\n", page, name_of(judgement.verdict));
  for (const std::string& reason : judgement.reasons) text += fmt::format("  {}\n", reason);
  return text;
}

std::string json_of(const Receipt& receipt, const std::string& page) {
  Json list = Json::array();
  for (const ReceiptFile& file : receipt.files) {
    const QuantizeReport& report = file.report;
    Json layers = Json::array();
    for (const QuantizedLayer& layer : report.layers) {
      layers.push_back({{"module", layer.module},
                        {"shape", {layer.shape[0], layer.shape[1]}},
                        {"was", layer.before},
                        {"became", layer.after},
                        {"quantized", layer.is_quantized},
                        {"group", layer.rotation_group},
                        {"relative_error", layer.relative_error},
                        {"output_error", layer.was_measured() ? Json(layer.output_error) : Json()},
                        {"outlier_ratio", layer.outlier_ratio},
                        {"bytes_before", layer.bytes_before},
                        {"bytes_after", layer.bytes_after}});
    }
    list.push_back({{"path", file.path},
                    {"recipe", report.recipe},
                    {"source_hash", report.source_hash},
                    {"bytes_before", report.bytes_before},
                    {"bytes_after", report.bytes_after},
                    {"resumed_layers", report.resumed_layers},
                    {"remarks", report.remarks},
                    {"layers", layers}});
  }
  Json all = {{"files", list}};
  if (!page.empty()) all["report"] = {{"path", page}, {"verdict", name_of(receipt.judge().verdict)}, {"reasons", receipt.judge().reasons}};
  return all.dump(2) + "\n";
}

}  // namespace

std::string quantize_model(const QuantizeOptions& options) {
  const QuantizeRecipe recipe = recipe_of(options);
  const fs::path in = options.in, out = options.out;
  std::error_code ignored;
  const bool is_model = fs::exists(in / "model_index.json", ignored);
  check_paths(options, recipe, is_model);
  const bool draws = is_model && (recipe.smooth > 0 || recipe.protects_worst || !options.report.empty());
  Receipt receipt{.source = options.in, .output = options.out, .recipe = recipe.text(), .version = fmt::format("octavo {}", version())};
  receipt.calibration = fmt::format("'{}' is not a whole model folder, so nothing could be drawn", options.in);
  CalibrationPrompts prompts;
  if (draws) {
    prompts = calibration_prompts(options.calibrate);
    receipt.calibration = prompts.text;
  }
  const auto say = [&](std::string_view what, std::size_t count) {
    return [&options, what, count](std::size_t done) {
      if (options.progress) options.progress(fmt::format("quantize: {} {}/{}", what, done + 1, count));
    };
  };
  const auto settings = [&](const Precision& precision) {
    return PictureSettings{.precision = precision, .threads = options.threads, .size = options.picture_size, .steps = options.picture_steps};
  };
  OutputTree tree;
  try {
    std::optional<ReportFiles> report;
    if (!options.report.empty()) report.emplace(tree, options.report);
    LineObserver observer(options, "calibration");
    ActivationStatistics statistics(observer);
    std::vector<Image> before;
    if (draws) {
      if (options.progress) {
        options.progress(fmt::format("quantize: calibrates with {}{}", prompts.text, options.calibrate.empty() ? "; --calibrate FILE takes yours" : ""));
      }
      before = draw_prompts(options.in, settings(precision::f32), prompts.prompts, report ? kReportPictures : 0, statistics,
                            say("calibration prompt", prompts.prompts.size()));
    }
    {
      ThreadPool pool(options.threads);
      if (is_model) {
        receipt.files = quantize_folder(options, recipe, draws ? &statistics : nullptr, pool, tree, in, out);
      } else {
        receipt.files.push_back(quantize_component(options, recipe, nullptr, pool, tree, in, out));
      }
    }
    if (report) {
      prompts.prompts.resize(before.size());
      if (draws) {
        std::vector<Image> after =
            draw_prompts(options.out, settings(precision::w8a8), prompts.prompts, before.size(), observer, say("picture after", prompts.prompts.size()));
        for (std::size_t i = 0; i < before.size(); ++i) {
          const PictureDifference difference = compare_pictures(before[i], after[i]);
          receipt.pictures.push_back({prompts.prompts[i], before[i].seed, std::move(before[i]), std::move(after[i]), difference});
        }
        receipt.other_bytes = other_bytes(in);
      }
      report->write(receipt);
    }
    tree.keep();
  } catch (const Cancelled&) {
    tree.keep_files();  // the same command goes on from here
    throw;
  }
  const std::string page = options.report.empty() ? "" : (fs::path(options.report) / "report.html").string();
  return options.format == Format::json ? json_of(receipt, page) : text_of(receipt, page);
}

}  // namespace octavo
