// The `octavo` program: words to arguments, exceptions to exit codes. The only file that includes the parsing library.
#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "api/describe.h"
#include "arguments.h"
#include "generate.h"
#include "gpu_commands.h"
#include "help.h"
#include "interrupt.h"
#include "numbers.h"
#include "octavo/error.h"
#include "plan_command.h"
#include "quantize_command.h"

namespace octavo::cli {
namespace {

constexpr int kUsageError = 2;  // the same as InvalidArgument, whatever the parsing library would return
constexpr int kInternalError = 70;

Format format_of(bool json) { return json ? Format::json : Format::text; }

// In the list of commands: the first sentence of each description; the examples below it belong to the command's own help.
class ShortList : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string description = command->get_description();
    std::stringstream line;
    const std::size_t sentence = description.find(". ");
    const std::size_t end = std::min(description.find('\n'), sentence == std::string::npos ? sentence : sentence + 1);
    CLI::detail::format_help(line, command->get_name(), description.substr(0, end), get_column_width());
    return line.str();
  }
};

// One line on standard error, even where the message of a library has several.
void print_error(std::string message) {
  for (char& c : message) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::fprintf(stderr, "octavo: %s\n", message.c_str());
}

void add_generate(CLI::App& program) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = program.add_subcommand("generate", "draw pictures from a prompt");
  command->description(kGenerateHelp);
  const auto text = [&](const char* name, std::optional<std::string>& value, const char* kind, const char* meaning, const char* group) {
    command->add_option_function<std::string>(name, [&value](const std::string& word) { value = word; }, meaning)->type_name(kind)->group(group);
  };
  const auto flag = [&](const char* name, bool& value, const char* meaning, const char* group) { command->add_flag(name, value, meaning)->group(group); };

  const char* what = "What to draw";
  text("--model", arguments->model, "DIR", "folder of the model; the demo model if left out", what);
  text("--prompt", arguments->prompt, "TEXT", "plain text or a JSON caption", what);
  text("--prompt-file", arguments->prompt_file, "FILE|-", "read the prompt from a file or from standard input", what);
  text("--width", arguments->width, "PIXELS", "a multiple of 16, 16 to 2048; more with --force", what);
  text("--height", arguments->height, "PIXELS", "a multiple of 16, 16 to 2048; more with --force", what);
  text("--seed", arguments->seed, "N", "same seed, same picture; default 0", what);
  text("--batch", arguments->batch, "N", "draw N pictures with seeds S to S+N-1 as NAME-SEED.png", what);

  const char* how = "How to draw it";
  text("--preset", arguments->preset, "NAME", "quality-48, default-20 or turbo-12", how);
  text("--steps", arguments->steps, "N", "number of denoising steps", how);
  text("--guidance", arguments->guidance, "G[,G...]", "one value for all steps, or one per step in time order", how);
  text("--mu", arguments->mu, "X", "mean of the noise schedule, before the resolution shift", how);
  text("--std", arguments->std_dev, "X", "standard deviation of the noise schedule", how);
  command->add_option("--lora", arguments->loras, "change the model by this LoRA, 1 (default) as trained; repeatable")
      ->type_name("FILE[:STRENGTH]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(how);
  text("--schedule-end", arguments->schedule_end, "zero|official", "last sigma: exactly 0 (default), or the model's own 5.5e-4", how);
  text("--noise", arguments->noise, "FILE:NAME", "start from this tensor of a safetensors file instead of drawn noise", how);

  const char* where = "Where to compute";
  text("--precision", arguments->precision, "P", "auto (default), f32, bf16, fp16 or w8a8; to compare with: w8a8-dequant, fp8, nf4", where);
  text("--attention", arguments->attention, "A", "of the denoisers: auto (default), bf16 (the floats of --precision) or int8", where);
  text("--device", arguments->device, "D", "auto (default: the first GPU, else the CPU), cpu, cuda or cuda:N", where);
  text("--vram", arguments->vram, "SIZE", "GPU memory that may be used, like 12GB; default what is free. Does not change the picture", where);
  text("--threads", arguments->threads, "N", "CPU threads; default one per core. Does not change the picture", where);
  flag("--cpu-reference", arguments->cpu_reference, "run the plain CPU bodies, the definition; very slow", where);

  const char* output = "Output";
  text("--output,-o", arguments->output, "PATH|-", "PNG file, or - for standard output; default octavo-SEED.png", output);
  text("--dump", arguments->dump, "FILE", "write tokens, features, latents and velocities as safetensors", output);
  flag("--json", arguments->json, "print the result as JSON", output);
  flag("--quiet,-q", arguments->quiet, "no progress and no notes on standard error", output);
  flag("--force", arguments->force, "allow sides over 2048 pixels", output);
  command->callback([arguments] { generate(*arguments); });
}

void add_inspect(CLI::App& program) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = program.add_subcommand("inspect", "say what is in a model folder, a weight file or a picture");
  command->description(kInspectHelp);
  command->add_option("path", arguments->path, "model folder, component folder, .safetensors, .gguf or .png")->required()->type_name("PATH");
  command->add_option("--precision", arguments->precision, "show what this precision would load")->type_name("P");
  const auto pixels = [&](const char* name, std::optional<std::string>& value) {
    command->add_option_function<std::string>(
               name, [&value](const std::string& word) { value = word; }, "predict the memory of a picture of this size")
        ->type_name("PIXELS");
  };
  pixels("--width", arguments->width);
  pixels("--height", arguments->height);
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] {
    InspectOptions options{.precision = arguments->precision};
    if (arguments->width) options.width = to_int("inspect: --width", *arguments->width);
    if (arguments->height) options.height = to_int("inspect: --height", *arguments->height);
    print_result(describe_path(arguments->path, options, format_of(arguments->json)));
  });
}

void add_caption(CLI::App& program) {
  CLI::App* command = program.add_subcommand("caption", "check or compact a JSON caption");
  command->description(kCaptionHelp);
  command->require_subcommand(1);
  auto arguments = std::make_shared<CaptionArguments>();
  CLI::App* check = command->add_subcommand("check", "list what is unusual about a caption");
  check->description(kCaptionCheckHelp);
  check->add_option("file", arguments->path, "JSON file, or - for standard input")->required()->type_name("FILE|-");
  check->add_flag("--json", arguments->json, "print JSON");
  check->callback([arguments] {
    const std::string text = read_text_argument(arguments->path, "caption check");
    print_result(describe_caption(text, arguments->path, format_of(arguments->json)));
  });
  CLI::App* compact = command->add_subcommand("compact", "write a caption in the form the model was trained on");
  compact->description(kCaptionCompactHelp);
  compact->add_option("file", arguments->path, "JSON file, or - for standard input")->required()->type_name("FILE|-");
  compact->callback([arguments] { print_result(compact_caption_text(read_text_argument(arguments->path, "caption compact"))); });
}

void add_small_commands(CLI::App& program) {
  auto json = std::make_shared<bool>(false);
  CLI::App* devices = program.add_subcommand("devices", "list what this machine can compute with");
  devices->description(kDevicesHelp);
  devices->add_flag("--json", *json, "print JSON");
  devices->callback([json] { print_result(describe_devices(format_of(*json))); });
  CLI::App* version = program.add_subcommand("version", "print the version");
  version->description(kVersionHelp);
  version->add_flag("--json", *json, "print JSON");
  version->callback([json] { print_result(describe_version(format_of(*json))); });
}

// The deepest command that was named: its help is the one that helps.
const CLI::App* named_command(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string command_line_of(const CLI::App* app) {
  return app->get_parent() == nullptr ? "octavo" : command_line_of(app->get_parent()) + " " + app->get_name();
}

// "--name=value" as two words. The parsing library would let "--prompt=" (an empty prompt) swallow the word after it.
std::vector<std::string> split_at_equals(int argc, char** argv) {
  const std::set<std::string> takes_no_value{"--json", "--quiet", "-q", "--force", "--cpu-reference", "--help", "-h", "--version"};
  std::vector<std::string> words;
  bool is_value = false;  // of the option before it: left alone, whatever it looks like
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    const bool is_option = !is_value && word.starts_with('-') && word != "-";
    const bool has_value = is_option && word.starts_with("--") && equals != std::string::npos;
    words.push_back(has_value ? word.substr(0, equals) : word);
    if (has_value) words.push_back(word.substr(equals + 1));
    is_value = is_option && !has_value && !takes_no_value.contains(word);
  }
  return words;
}

std::string names_of_commands(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names += (names.empty() ? "" : ", ") + command->get_name();
  return names;
}

// "'--promt' is not known here; nearest: '--prompt'": of the words that found no place (`all`) the option, whose value is among them.
std::string unknown_words(const CLI::App& command, const std::string& all) {
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  for (const std::string& word : command.remaining()) {
    if (word.starts_with("--") && word != "--") return "'" + word + "' is not known here; nearest: '" + nearest_option(word, options) + "'";
  }
  return "'" + all + "' is not known here";
}

// The library's words for the mistakes that people make, in ours. `command` is the one that was called.
std::string reworded(const CLI::ParseError& failure, const CLI::App& command) {
  const std::string message = failure.what();
  const std::size_t colon = message.find(": ");
  const std::string subject = message.substr(0, colon), rest = colon == std::string::npos ? "" : message.substr(colon + 2);
  if (message.starts_with("A subcommand is required")) return "a command is missing; known: " + names_of_commands(command);
  if (message.find("At Most 1 required") != std::string::npos) return subject + " was given more than once; give it once";
  if (message.starts_with("The following argument") && !rest.empty()) return unknown_words(command, rest);
  if (rest.ends_with(" missing")) return subject + " is the last word, but it needs a value";
  if (const std::size_t end = message.find(" is required"); end != std::string::npos) {
    const CLI::Option* option = command.get_option_no_throw(message.substr(0, end));
    return (option != nullptr ? option->get_type_name() : message.substr(0, end)) + " is missing";
  }
  if (const std::size_t equals = rest.find(" = "); message.starts_with("Could not convert") && equals != std::string::npos) {
    return rest.substr(0, equals) + " '" + rest.substr(equals + 3) + "' is not a number that fits";
  }
  return message;
}

// Throws InvalidArgument if `app` has commands and the next word is neither one nor a call for help; the parsing library would only say that
// a command is missing.
void check_command(const CLI::App& app, const std::vector<std::string>& words, std::size_t next) {
  const std::vector<const CLI::App*> commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty() || next >= words.size() || words[next] == "--help" || words[next] == "-h" || words[next] == "--version") return;
  for (const CLI::App* command : commands) {
    if (command->get_name() == words[next]) return check_command(*command, words, next + 1);
  }
  throw InvalidArgument("'" + words[next] + "' is not a command; known: " + names_of_commands(app) + "; see " + command_line_of(&app) + " --help");
}

int run(int argc, char** argv) {
  CLI::App program(kProgramHelp, "octavo");
  program.formatter(std::make_shared<ShortList>());  // before the commands, which inherit it
  program.require_subcommand(1);
  program.set_version_flag("--version", [] { return describe_version(Format::text); });
  add_generate(program);
  add_inspect(program);
  add_caption(program);
  add_small_commands(program);
  add_quantize_command(program);
  add_plan_command(program);
  add_gpu_commands(program);
  if (argc <= 1) {
    std::fputs(program.help().c_str(), stderr);
    return kUsageError;
  }
  std::vector<std::string> words = split_at_equals(argc - 1, argv + 1);
  check_command(program, words, 0);
  try {
    std::reverse(words.begin(), words.end());  // the library takes them from the back
    program.parse(std::move(words));
    return 0;
  } catch (const CLI::CallForHelp&) {
    print_result(program.help());  // of the deepest command that was named, under its whole name
    return 0;
  } catch (const CLI::CallForVersion& version) {
    print_result(version.what());
    return 0;
  } catch (const CLI::ParseError& failure) {
    const std::string where = command_line_of(named_command(&program));
    const std::string who = where == "octavo" ? "" : where.substr(where.find(' ') + 1) + ": ";
    print_error(who + reworded(failure, *named_command(&program)) + "; see " + where + " --help");
    return kUsageError;
  }
}

// A stream that the caller closed ("2>&-") keeps its number: else the next file that is opened would get it, and progress lines would be written
// into a checkpoint. Opened the wrong way round, so that using it is still an error.
void hold_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // the lowest number that is free
  }
}

}  // namespace
}  // namespace octavo::cli

int main(int argc, char** argv) {
  using namespace octavo::cli;
  hold_closed_streams();
  try {
    return run(argc, argv);
  } catch (const octavo::Cancelled& stopped) {
    print_error(stopped.what());
    return interrupted_exit_code();
  } catch (const octavo::Error& error) {
    print_error(error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    print_error("out of memory; use a smaller --width and --height or close other programs");
    return octavo::OutOfMemory("").exit_code();
  } catch (const std::filesystem::filesystem_error& failure) {
    print_error("file '" + failure.path1().string() + "': " + failure.code().message() + "; check the path and its permissions");
    return octavo::InvalidArgument("").exit_code();
  } catch (const std::exception& error) {
    print_error(std::string("internal error: ") + error.what() + "; please report it with the output of 'octavo version' and this command");
    return kInternalError;
  }
}
