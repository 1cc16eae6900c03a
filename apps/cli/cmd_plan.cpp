#include <CLI/CLI.hpp>

#include <memory>

#include "api/plan.h"
#include "arguments.h"
#include "generate.h"
#include "numbers.h"
#include "picture_options.h"
#include "plan_command.h"

namespace octavo::cli {
namespace {

constexpr const char* kPlanHelp = R"(Says what would lie where on a GPU, and the peak of memory, before anything is loaded. Reads headers only; needs no GPU.

Examples:
  octavo plan --model ideogram-4 --width 1024 --height 1024 --vram 12GB
  octavo plan --model ideogram-4 --vram 8GiB --precision w8a8 --json
  octavo plan                                    # the demo model, on the GPU of this machine
)";

}  // namespace

void add_plan_command(CLI::App& program) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = program.add_subcommand("plan", "say what fits on a GPU, and how");
  command->description(kPlanHelp);
  const auto text = [&](const char* name, std::optional<std::string>& value, const char* kind, const char* meaning) {
    command->add_option_function<std::string>(name, [&value](const std::string& word) { value = word; }, meaning)->type_name(kind);
  };
  text("--model", arguments->model, "DIR", "folder of the model; the demo model if left out");
  text("--width", arguments->width, "PIXELS", "of the picture; the model's default if left out");
  text("--height", arguments->height, "PIXELS", "of the picture; the model's default if left out");
  text("--steps", arguments->steps, "N", "number of denoising steps");
  text("--text-tokens", arguments->text_tokens, "N", "tokens of the prompt; default 512, a long caption");
  text("--precision", arguments->precision, "P", "auto (w8a8 if the file is int8, else bf16), f32, bf16, fp16, w8a8, fp8 or nf4");
  text("--attention", arguments->attention, "A", "of the denoisers: auto (default), bf16 or int8, which takes other scratch");
  text("--vram", arguments->vram, "SIZE", "GPU memory that may be used, like 12GB or 11.5GiB; what is free here if left out");
  text("--device", arguments->device, "D", "whose free memory is meant: auto (default), cuda or cuda:N");
  command->add_option("--lora", arguments->loras, "a LoRA that the picture will have; repeatable")
      ->type_name("FILE[:STRENGTH]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] {
    const int text_tokens = arguments->text_tokens ? to_int("plan: --text-tokens", *arguments->text_tokens) : kPlannedTextTokens;
    print_result(
        describe_plan(to_engine_options("plan", *arguments), to_sized_request("plan", *arguments), text_tokens, arguments->json ? Format::json : Format::text));
  });
}

}  // namespace octavo::cli
