#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "api/tune.h"
#include "generate.h"
#include "gpu_commands.h"

namespace octavo::cli {
namespace {

constexpr const char* kTuneHelp = R"(Measures which kernel runs which linear best on this GPU, once, and remembers it. Without it an estimate chooses.
The choice changes the speed only: every kernel gives the same bits. A run that was stopped goes on where it was.

Examples:
  octavo tune
  octavo tune --shapes "4096,13824,4608;4096+4352,4608,12288"     # M,N,K; M1+M2 are two problems in one launch
  octavo tune --export my-gpu.json
  octavo tune --import my-gpu.json
)";

struct Arguments {
  TuneOptions options{};
  bool json = false;
  bool quiet = false;
};

}  // namespace

void add_gpu_commands(CLI::App& program) {
  add_tune_command(program);
  add_bench_command(program);
}

void add_tune_command(CLI::App& program) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = program.add_subcommand("tune", "measure once which kernels are fastest on this GPU");
  command->description(kTuneHelp);
  TuneOptions& options = arguments->options;
  command->add_option("--shapes", options.shapes, "a model's name or M,N,K[;M,N,K...]; the default model's if left out")->type_name("SHAPES");
  command->add_option("--device", options.device, "cuda (default) or cuda:N")->type_name("D");
  command->add_option("--export", options.export_path, "write the choices to this file; alone, nothing is measured")->type_name("FILE");
  command->add_option("--import", options.import_path, "take over the choices of a file made on the same model of GPU; alone, nothing is measured")
      ->type_name("FILE");
  command->add_flag("--force", options.force, "measure again what is known");
  command->add_flag("--regret", options.regret, "afterwards time every candidate and say how far the choices are from the best; slow");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  command->add_flag("--quiet,-q", arguments->quiet, "no progress on standard error");
  command->callback([arguments] {
    TuneOptions& chosen = arguments->options;
    chosen.format = arguments->json ? Format::json : Format::text;
    if (!arguments->quiet) chosen.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    print_result(tune_kernels(chosen));
  });
}

}  // namespace octavo::cli
