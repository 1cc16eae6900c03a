// What one denoising step costs on this CPU, in time and in memory: both branches of a random mid-size model and of the tiny golden ones.
//   bench_cpu_forward [--threads N] [--rounds N] [--models mid,tiny-hd64,tiny-hd256] [--precisions f32,w8a8,...] [--lora-rank R] [--json FILE]
//
// step      one forward of the conditional and one of the unconditional branch, median and p10-p90 of the rounds.
// share     time of bare cblas_sgemm calls (OpenBLAS, same thread count, float32) of the same shapes / time of the step, rounds interleaved.
//           Once by the clock on the wall, once by processor time, which other work on a shared machine disturbs less.
//           Attention, norms and conversions count against us; the yardstick's weights stay in cache, ours do not.
// lora      with --lora-rank: what a step costs with a LoRA of that rank on every projection inside the conditional denoiser's blocks (what trainers
//           target), on the same weights; its rounds alternate with those without.
// memory    every row is a process of its own: VmHWM after loading, preparing and stepping, less what the process had at its start,
//           against 1.2 x weights in use + activations (scratch, session, latents).
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cpu/isa.h"
#include "golden/lora_files.h"
#include "golden/random_model.h"
#include "models/ideogram4/conditioning.h"
#include "models/ideogram4/dit.h"
#include "models/ideogram4/params.h"

#ifdef OCTAVO_BENCH_OPENBLAS
#include <cblas.h>
extern "C" void openblas_set_num_threads(int threads);
#endif

namespace octavo {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kSteps = 4;  // that are prepared; the rounds walk through them

struct Model {
  std::string name;
  fs::path folder;
  int grid_h, grid_w, text_rows;
};

struct Gemm {
  std::int64_t m, n, k;
};

// A number in kB from /proc/self/status.
double status_mib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  }
  return 0;
}

// Processor seconds of all threads of this process.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::size_t(share * double(values.size() - 1) + 0.5)];
}

// 8 heads of 128, 8 layers, MLP 2816: 105 million parameters in the blocks of each branch.
void write_mid_model(const fs::path& folder) {
  const json config{{"_class_name", "Ideogram4Transformer2DModel"},
                    {"num_layers", 8},
                    {"num_attention_heads", 8},
                    {"attention_head_dim", 128},
                    {"intermediate_size", 2816},
                    {"adaln_dim", 256},
                    {"in_channels", 128},
                    {"llm_features_dim", 4096},
                    {"rope_theta", 5000000},
                    {"mrope_section", {24, 20, 20}},
                    {"norm_eps", 1e-5}};
  for (const std::string component : {"transformer", "unconditional_transformer"}) {
    golden::write_text(folder / component / "config.json", config.dump());
    const ideogram4::Config parsed = ideogram4::Config::read(folder / component);
    golden::write_random_checkpoint(folder / component / golden::kDiffusersFile, ideogram4::parameters(parsed, {}, true), component == "transformer" ? 1u : 2u);
  }
}

std::vector<Gemm> gemms_of(const ideogram4::Config& config, std::int64_t text_rows, std::int64_t image_rows) {
  std::vector<Gemm> list{{image_rows, config.hidden(), config.in_channels}, {image_rows, config.in_channels, config.hidden()}};
  for (int l = 0; l < config.layers; ++l) {
    const std::int64_t rows = text_rows + image_rows, live = l + 1 == config.layers ? image_rows : rows;
    list.push_back({rows, 3 * config.hidden(), config.hidden()});
    list.push_back({live, config.hidden(), config.hidden()});
    list.push_back({live, 2 * config.intermediate, config.hidden()});
    list.push_back({live, config.hidden(), config.intermediate});
  }
  return list;
}

// Bare products of those shapes on buffers of ones.
class Yardstick {
 public:
  Yardstick(std::vector<Gemm> gemms, int threads) : gemms_(std::move(gemms)) {
    for (const Gemm& g : gemms_) {
      flops_ += 2.0 * double(g.m) * double(g.n) * double(g.k);
      x_.resize(std::max<std::size_t>(x_.size(), std::size_t(g.m * g.k)), 1.0f);
      w_.resize(std::max<std::size_t>(w_.size(), std::size_t(g.n * g.k)), 1.0f);
      y_.resize(std::max<std::size_t>(y_.size(), std::size_t(g.m * g.n)));
    }
#ifdef OCTAVO_BENCH_OPENBLAS
    openblas_set_num_threads(threads);
#else
    (void)threads;
#endif
  }
  double flops() const { return flops_; }
  // Seconds; 0 if this build has no OpenBLAS.
  double run() {
#ifdef OCTAVO_BENCH_OPENBLAS
    const Stopwatch watch;
    for (const Gemm& g : gemms_) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(g.m), int(g.n), int(g.k), 1.0f, x_.data(), int(g.k), w_.data(), int(g.k), 0.0f, y_.data(),
                  int(g.n));
    }
    return watch.seconds();
#else
    return 0;
#endif
  }

 private:
  std::vector<Gemm> gemms_;
  std::vector<float> x_{}, w_{}, y_{};
  double flops_ = 0;
};

// Of rank `rank`, in bf16 as trainers write it, with q, k and v apart.
LoraFile write_lora(const std::vector<LoraTarget>& targets, std::int64_t rank, const fs::path& file) {
  golden::LoraBuilder builder;
  std::uint32_t seed = 10;
  for (const LoraTarget& target : targets) {
    const bool is_block = target.module.find("attention.to_") != std::string::npos || target.module.find("feed_forward.") != std::string::npos;
    if (is_block) builder.add_pair("transformer." + target.module, target.rows, target.columns, rank, seed += 2, DType::bf16);
  }
  return LoraFile(builder.write(file));
}

// One row of the table, in this process.
json measure(const Model& model, const Precision& precision, int threads, int rounds, int lora_rank) {
  const double start_mib = status_mib("VmRSS");
  ThreadPool pool(threads);
  Arena scratch{Device{}};
  ExecContext ctx;
  ctx.pool = &pool;
  ctx.scratch = &scratch;

  const Stopwatch load_watch;
  const ideogram4::Dit cond(ctx, model.folder / "transformer", "transformer", precision);
  const ideogram4::Dit uncond(ctx, model.folder / "unconditional_transformer", "unconditional_transformer", precision);
  const double load_seconds = load_watch.seconds();

  const std::int64_t image_rows = std::int64_t(model.grid_h) * model.grid_w;
  const Tensor features = golden::random_rows({model.text_rows, cond.config().llm_features}, 3);
  const Tensor latents = golden::random_rows({image_rows, cond.config().in_channels}, 4);
  const Tensor velocity_cond(DType::f32, latents.shape()), velocity_uncond(DType::f32, latents.shape());
  std::vector<float> times;
  for (int step = 0; step < kSteps; ++step) times.push_back(float(step) / kSteps);
  const Stopwatch prepare_watch;
  const auto session_cond = cond.prepare(ctx, model.grid_h, model.grid_w, features.view(), times);
  const auto session_uncond = uncond.prepare(ctx, model.grid_h, model.grid_w, std::nullopt, times);
  const double prepare_seconds = prepare_watch.seconds();
  const auto step_of = [&](const ideogram4::Session& session, int index) {
    const Stopwatch watch;
    cond.forward(ctx, session, index % kSteps, latents, velocity_cond);
    uncond.forward(ctx, *session_uncond, index % kSteps, latents, velocity_uncond);
    return watch.seconds();
  };
  const auto step = [&](int index) { return step_of(*session_cond, index); };
  for (int warm_up = 0; warm_up < 2; ++warm_up) step(warm_up);
  const double peak_mib = status_mib("VmHWM") - start_mib;

  std::vector<Gemm> gemms = gemms_of(cond.config(), model.text_rows, image_rows);
  const std::vector<Gemm> more = gemms_of(uncond.config(), 0, image_rows);
  gemms.insert(gemms.end(), more.begin(), more.end());
  Yardstick yardstick(gemms, threads);
  yardstick.run();
  std::vector<double> steps, products, step_cpu, product_cpu;
  const golden::TemporaryFolder lora_folder;
  std::optional<LoraFile> lora_file;
  LoraFit lora;
  std::unique_ptr<ideogram4::Session> session_lora;
  std::vector<double> lora_steps, lora_cpu;
  if (lora_rank > 0) {
    const std::vector<LoraTarget> targets = ideogram4::lora_targets(cond.config(), true);
    lora_file.emplace(write_lora(targets, lora_rank, lora_folder.path() / "lora.safetensors"));
    lora = fit_lora(*lora_file, 1, targets, {});
    session_lora = cond.prepare(ctx, model.grid_h, model.grid_w, features.view(), times, &lora.conditional);
    step_of(*session_lora, 0);
  }
  for (int round = 0; round < rounds; ++round) {
    const double start = processor_seconds();
    products.push_back(yardstick.run());
    const double middle = processor_seconds();
    steps.push_back(step(round));
    product_cpu.push_back(middle - start);
    const double end = processor_seconds();
    step_cpu.push_back(end - middle);
    if (!session_lora) continue;
    lora_steps.push_back(step_of(*session_lora, round));
    lora_cpu.push_back(processor_seconds() - end);
  }

  const auto session_bytes = [](const ideogram4::Session& session) {
    const auto& state = dynamic_cast<const ideogram4::SessionState&>(session);
    return state.text.bytes() + state.cos.bytes() + state.sin.bytes() + state.modulation.bytes() + state.final_scale.bytes();
  };
  constexpr double kMib = 1048576;
  const double weights_mib = double(cond.owned_bytes() + cond.mapped_bytes() + uncond.owned_bytes() + uncond.mapped_bytes()) / kMib;
  const double activations_mib =
      double(scratch.peak_bytes() + session_bytes(*session_cond) + session_bytes(*session_uncond) + features.bytes() + 3 * latents.bytes()) / kMib;
  json row{{"model", model.name},
           {"precision", std::string(precision.name)},
           {"image_tokens", image_rows},
           {"text_tokens", model.text_rows},
           {"step_s", percentile(steps, 0.5)},
           {"step_p10_s", percentile(steps, 0.1)},
           {"step_p90_s", percentile(steps, 0.9)},
           {"gemm_gflop", yardstick.flops() / 1e9},
           {"sgemm_s", percentile(products, 0.5)},
           {"share_of_sgemm", percentile(products, 0.5) / percentile(steps, 0.5)},
           {"step_cpu_s", percentile(step_cpu, 0.5)},
           {"sgemm_cpu_s", percentile(product_cpu, 0.5)},
           {"cpu_share_of_sgemm", percentile(product_cpu, 0.5) / percentile(step_cpu, 0.5)},
           {"load_s", load_seconds},
           {"prepare_s", prepare_seconds},
           {"peak_mib", peak_mib},
           {"weights_mib", weights_mib},
           {"activations_mib", activations_mib},
           {"memory_bound_mib", 1.2 * weights_mib + activations_mib}};
  if (session_lora) {
    row["lora_rank"] = lora_rank;
    row["lora_keys"] = lora.keys_applied;
    row["lora_step_s"] = percentile(lora_steps, 0.5);
    row["lora_step_cpu_s"] = percentile(lora_cpu, 0.5);
    row["lora_cpu_overhead"] = percentile(lora_cpu, 0.5) / percentile(step_cpu, 0.5) - 1;
  }
  return row;
}

// The same in a process of its own, so that its peak of memory is its own.
json measure_apart(const std::string& program, const Model& model, const Precision& precision, int threads, int rounds, int lora_rank) {
  const std::string command = fmt::format("'{}' --row {} {} '{}' {} {} {} {} {} {}", program, model.name, precision.name, model.folder.string(), model.grid_h,
                                          model.grid_w, model.text_rows, threads, rounds, lora_rank);
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  std::string text;
  for (char buffer[4096]; const std::size_t count = std::fread(buffer, 1, sizeof(buffer), pipe);) text.append(buffer, count);
  if (::pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return json::parse(text);
}

// Running processes beside this one: a shared machine shows here.
std::string load_average() {
  std::string text;
  std::ifstream("/proc/loadavg") >> text;
  return text;
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

void print_header() {
  fmt::print("{:<11} {:<5} {:>9} {:<17} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "", "", "", "", "", "of sgemm", "of sgemm", "of f32", "peak",
             "weights", "activ.", "bound");
  fmt::print("{:<11} {:<5} {:>9} {:<17} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "model", "", "s/step", "[p10-p90]", "GFLOP/s", "wall", "cpu", "cpu",
             "MiB", "MiB", "MiB", "MiB");
}

void print_row(const json& row, double f32_share) {
  const auto number = [&](const char* key) { return row.at(key).get<double>(); };
  fmt::print("{:<11} {:<5} {:>9.4f} [{:.4f}-{:.4f}] {:>8.1f} {:>7.0f} % {:>7.0f} % {:>7.2f} x {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f}  {}\n",
             row.at("model").get<std::string>(), row.at("precision").get<std::string>(), number("step_s"), number("step_p10_s"), number("step_p90_s"),
             number("gemm_gflop") / number("step_s"), 100 * number("share_of_sgemm"), 100 * number("cpu_share_of_sgemm"),
             f32_share > 0 ? number("cpu_share_of_sgemm") / f32_share : 0.0, number("peak_mib"), number("weights_mib"), number("activations_mib"),
             number("memory_bound_mib"), number("peak_mib") <= number("memory_bound_mib") ? "ok" : "OVER");
  if (row.contains("lora_rank")) {
    fmt::print("{:<18}{:>9.4f}  with a LoRA of rank {} on {} keys: {:+.1f} % processor time\n", "", number("lora_step_s"), row.at("lora_rank").get<int>(),
               row.at("lora_keys").get<int>(), 100 * number("lora_cpu_overhead"));
  }
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 10 && args[0] == "--row") {
    const Model model{args[1], args[3], std::stoi(args[4]), std::stoi(args[5]), std::stoi(args[6])};
    std::printf("%s\n", measure(model, *precision::find(args[2]), std::stoi(args[7]), std::stoi(args[8]), std::stoi(args[9])).dump().c_str());
    return 0;
  }
  int threads = ThreadPool(0).size(), rounds = 9, lora_rank = 0;
  std::string json_file, wanted = "mid,tiny-hd64,tiny-hd256", precisions;
  for (std::size_t i = 0; i + 1 < args.size(); i += 2) {
    if (args[i] == "--threads")
      threads = std::stoi(args[i + 1]);
    else if (args[i] == "--rounds")
      rounds = std::stoi(args[i + 1]);
    else if (args[i] == "--models")
      wanted = args[i + 1];
    else if (args[i] == "--precisions")
      precisions = fmt::format(",{},", args[i + 1]);
    else if (args[i] == "--lora-rank")
      lora_rank = std::stoi(args[i + 1]);
    else if (args[i] == "--json")
      json_file = args[i + 1];
    else
      throw std::runtime_error("unknown option " + args[i] + "; known are --threads, --rounds, --models, --precisions, --lora-rank, --json");
  }
  if (args.size() % 2 != 0) throw std::runtime_error("the last option has no value");

  golden::TemporaryFolder temporary;
  const fs::path data = fs::path(OCTAVO_SOURCE_DIR) / "tests" / "golden" / "data";
  json record{{"bench", "cpu_forward"},
              {"processor", processor_name()},
              {"isa", std::string(cpu::name_of(cpu::active_isa()))},
              {"threads", threads},
              {"rounds", rounds},
              {"load_average_before", load_average()},
              {"rows", json::array()}};
  fmt::print("{}, {} threads, {}\n", processor_name(), threads, cpu::name_of(cpu::active_isa()));
  print_header();
  std::stringstream names(wanted);
  for (std::string name; std::getline(names, name, ',');) {
    const bool is_mid = name == "mid";
    if (is_mid) write_mid_model(temporary.path() / "mid");
    const Model model = is_mid ? Model{"mid", temporary.path() / "mid", 16, 16, 64} : Model{name, data / name, 6, 4, 33};
    double f32_share = 0;
    for (const Precision& precision : precision::all) {
      if (!precisions.empty() && precisions.find(fmt::format(",{},", precision.name)) == std::string::npos) continue;
      const json row = measure_apart(fs::canonical("/proc/self/exe").string(), model, precision, threads, is_mid ? rounds : 20 * rounds, lora_rank);
      if (precision.name == "f32") f32_share = row.at("cpu_share_of_sgemm").get<double>();
      print_row(row, f32_share);
      record["rows"].push_back(row);
    }
  }
  if (!json_file.empty()) std::ofstream(json_file) << record.dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  try {
    return octavo::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_cpu_forward: {}\n", error.what());
    return 1;
  }
}
