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
}

}  // namespace octavo::cli
