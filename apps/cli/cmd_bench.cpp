#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "api/bench.h"
#include "generate.h"
#include "gpu_commands.h"
#include "octavo/error.h"

namespace octavo::cli {
namespace {

constexpr const char* kBenchHelp = R"(Measures kernels on this GPU beside the limit of the hardware. Ratios hold within one run.

Examples:
  octavo bench linear
  octavo bench linear --shapes 4096,13824,4608 --peers --explain dispatch
  octavo bench producers --json > producers.json
  octavo bench model --profile profile.html
)";

constexpr const char* kLinearHelp = R"(W8A8 linears with bf16 output: the chosen kernel, every other candidate worth timing and, with --peers, cuBLASLt in
bf16, INT8 (with our dequantisation to the same bf16) and FP8, in turns in one run.

Examples:
  octavo bench linear --shapes ideogram4
  octavo bench linear --shapes "4096,13824,4608;100,4608,12288" --peers
  octavo bench linear --shapes 4096,13824,4608 --explain dispatch
)";

constexpr const char* kProducersHelp =
    R"(The row ops that feed the linears (quantise, norms, gated residual, SiLU product), bf16 to s8 at M = 4096, with and without
ConvRot, against a device copy of the same bytes.

Examples:
  octavo bench producers
  octavo bench producers --json > producers.json
)";

constexpr const char* kModelHelp =
    R"(A whole model on this GPU with random weights, which are drawn there: nothing is downloaded or read. Every op of a step beside the limit of the
hardware, forward, step and image, loading, peak memory. The pictures mean nothing. A few hundred MB of TMPDIR are used while it runs.
With --vram it draws whole pictures instead, as generate does, without a budget and within each: peaks, seconds, and whether the picture stays the same.

Examples:
  octavo bench model
  octavo bench model ideogram4 --size 1024 --text 256 --steps 48 --random-weights --precision w8a8,bf16
  octavo bench model --size 768,1024,2048 --precision w8a8 --json > model.json
  octavo bench model --profile profile.html
  octavo bench model --vram 22GB,12GB,8GB --size 1024 --steps 4   # fails if a peak is above its budget or a picture differs
)";

struct Arguments {
  BenchOptions options{};
  std::string explain{};
  bool json = false;
  bool quiet = false;
};

void add_common(CLI::App& command, Arguments& arguments) {
  command.add_option("--device", arguments.options.device, "cuda (default) or cuda:N")->type_name("D");
  command.add_flag("--quick", arguments.options.quick, "a third of the timings");
  command.add_flag("--json", arguments.json, "print the result as JSON");
  command.add_flag("--quiet,-q", arguments.quiet, "no progress on standard error");
}

BenchOptions& finished(Arguments& arguments) {
  if (!arguments.explain.empty() && arguments.explain != "dispatch") {
    throw InvalidArgument("bench linear: --explain '" + arguments.explain + "' is unknown; known: dispatch");
  }
  arguments.options.explain_dispatch = !arguments.explain.empty();
  arguments.options.format = arguments.json ? Format::json : Format::text;
  if (!arguments.quiet) arguments.options.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  return arguments.options;
}

void add_model_command(CLI::App& bench) {
  struct ModelArguments {
    ModelBenchOptions options{};
    bool random_weights = false, json = false, quiet = false;
  };
  auto arguments = std::make_shared<ModelArguments>();
  ModelBenchOptions& options = arguments->options;
  CLI::App* command = bench.add_subcommand("model", "a whole model of random weights, op by op");
  command->description(kModelHelp);
  command->add_option("model", options.model, "ideogram4 (default), or ideogram4-tiny to try the command out")->type_name("MODEL");
  command->add_option("--size", options.sizes, "side of the square picture, or several: 768,1024 (default 1024)")->type_name("PIXELS");
  command->add_option("--text", options.text, "text tokens of the conditional branch (default 256)")->type_name("N");
  command->add_option("--steps", options.steps, "of the image; some are measured, the rest multiplied (default 48; with --vram all are drawn, default 4)")
      ->type_name("N");
  command->add_option("--precision", options.precisions, "of w8a8, bf16 and fp16, with commas (default w8a8,bf16; with --vram w8a8)")->type_name("P");
  command->add_option("--vram", options.budgets, "draw within these budgets of GPU memory: 22GB,12GB")->type_name("SIZE[,SIZE...]");
  command->add_flag("--random-weights", arguments->random_weights, "what is measured anyway: there is no other kind yet");
  command->add_option("--profile", options.profile_path, "write a page that shows where the time goes")->type_name("FILE.html");
  command->add_option("--device", options.device, "cuda (default) or cuda:N")->type_name("D");
  command->add_flag("--quick", options.quick, "a third of the timings");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  command->add_flag("--quiet,-q", arguments->quiet, "no progress on standard error");
  command->callback([arguments, command] {
    ModelBenchOptions& chosen = arguments->options;
    chosen.format = arguments->json ? Format::json : Format::text;
    if (!arguments->quiet) chosen.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    if (command->count("--vram") == 0) return print_result(bench_model(chosen));
    const BudgetBench result = bench_budgets(chosen);
    print_result(result.report);
    if (!result.problems.empty()) throw InternalError(fmt::format("bench model: {}", fmt::join(result.problems, "; ")));
  });
}

}  // namespace

void add_bench_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("bench", "measure kernels on this GPU");
  command->description(kBenchHelp);
  command->require_subcommand(1);

  auto linear = std::make_shared<Arguments>();
  CLI::App* linear_command = command->add_subcommand("linear", "W8A8 linears beside their limit and their peers");
  linear_command->description(kLinearHelp);
  linear_command->add_option("--shapes", linear->options.shapes, "a model's name or M,N,K[;M,N,K...]; the default model's if left out")->type_name("SHAPES");
  linear_command->add_flag("--peers", linear->options.peers, "cuBLASLt beside ours, if libcublasLt is found (or OCTAVO_CUBLASLT names it)");
  linear_command->add_option("--explain", linear->explain, "dispatch: which kernel was chosen, why, and what lost")->type_name("TOPIC");
  add_common(*linear_command, *linear);
  linear_command->callback([linear] { print_result(bench_linear(finished(*linear))); });

  auto producers = std::make_shared<Arguments>();
  CLI::App* producers_command = command->add_subcommand("producers", "row ops beside a copy of the same bytes");
  producers_command->description(kProducersHelp);
  add_common(*producers_command, *producers);
  producers_command->callback([producers] { print_result(bench_producers(finished(*producers))); });

  add_model_command(*command);
}

}  // namespace octavo::cli
