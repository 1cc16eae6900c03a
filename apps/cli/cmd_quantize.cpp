#include "api/quantize.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "generate.h"
#include "interrupt.h"
#include "octavo/error.h"
#include "quantize_command.h"

namespace octavo::cli {
namespace {

constexpr const char* kQuantizeHelp = R"(Writes an INT8 copy of a model: one scale per row, after a rotation that spreads outliers (ConvRot). The files are
ComfyUI's native int8_tensorwise; this program runs them as they are. A run that was stopped goes on where it was.

Examples:
  octavo quantize models/ideogram-4 models/ideogram-4-int8           # a whole model folder: both denoisers, the rest is linked
  octavo quantize ideogram4_fp8_scaled.safetensors ideogram4_int8_convrot.safetensors
  octavo quantize models/demo demo-int8 --group 64
  octavo quantize models/demo demo-smooth --scheme w8a8 --smooth 0.5 --calibrate prompts.txt
  octavo quantize models/demo demo-int8 --report receipt              # what did it cost? receipt/report.html shows it
  octavo quantize models/demo demo-int8 --protect auto --budget 10 --calibrate prompts.txt
  octavo quantize in.safetensors out.safetensors --scheme w8a8 --protect "layers.0.*" --protect "*.feed_forward.w2"
)";

struct Arguments {
  QuantizeOptions options{};
  bool json = false;
  bool quiet = false;
};

}  // namespace

void add_quantize_command(CLI::App& program) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = program.add_subcommand("quantize", "write an INT8 copy of a model and say what it cost");
  command->description(kQuantizeHelp);
  QuantizeOptions& options = arguments->options;
  command->add_option("in", options.in, "model folder, component folder, .safetensors or .gguf")->required()->type_name("IN");
  command->add_option("out", options.out, "folder, or a .safetensors file")->required()->type_name("OUT");
  command->add_option("--scheme", options.scheme, "convrot (default) or w8a8, without rotation")->type_name("S");
  command->add_option("--group", options.group, "largest rotation group, a power of 4; default 256. A layer takes the largest that divides its inputs")
      ->type_name("G");
  command
      ->add_option("--protect", options.protect,
                   "keep layers in floats, repeatable. Always kept: those that converters leave alone, unless 'none' is given. "
                   "auto: measures every layer and keeps the worst too; anything else: a pattern of module names")
      ->type_name("WHAT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--budget", options.budget, "what --protect auto may add to a file, in percent; default 5")->type_name("PERCENT");
  command->add_option("--smooth", options.smooth, "move outliers into the weights before quantising, 0 to 1, usual 0.5; needs a model folder")
      ->type_name("ALPHA");
  command->add_option("--calibrate", options.calibrate, "prompts, one a line, drawn to see what the layers read; default: four built-in ones")
      ->type_name("FILE");
  command->add_option("--report", options.report, "write DIR/report.html: errors, outliers, pictures before and after, a verdict; and report.json")
      ->type_name("DIR");
  command->add_option("--picture-size", options.picture_size, "side of the pictures drawn for all this, in pixels; default: the model's own size")
      ->type_name("N");
  command->add_option("--picture-steps", options.picture_steps, "their denoising steps; default: the model's own")->type_name("N");
  command->add_option("--threads", options.threads, "CPU threads; default one per core. Does not change the file")->type_name("N");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  command->add_flag("--quiet,-q", arguments->quiet, "no progress and no notes on standard error");
  command->callback([arguments, command] {
    QuantizeOptions& chosen = arguments->options;
    if (command->count("--threads") > 0 && chosen.threads < 1)
      throw InvalidArgument(fmt::format("quantize: --threads {}: at least 1 thread is needed; leave the option out for one per core", chosen.threads));
    if (command->count("--calibrate") > 0 && chosen.calibrate.empty())
      throw InvalidArgument("quantize: --calibrate '': the path is empty; name a file of prompts, or leave the option out for the built-in ones");
    chosen.format = arguments->json ? Format::json : Format::text;
    if (!arguments->quiet) chosen.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    catch_interrupts();
    chosen.cancelled = [] { return was_interrupted(); };
    print_result(quantize_model(chosen));
  });
}

}  // namespace octavo::cli
