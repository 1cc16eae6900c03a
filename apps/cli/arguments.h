// The words of the command line, before anybody has looked at them. Filled in main.cpp, the only file that knows the parsing library.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace octavo::cli {

// Text stays text here: generate.cpp turns it into numbers, so that every message has our own words and exit code 2.
struct GenerateArguments {
  std::optional<std::string> model{}, prompt{}, prompt_file{}, width{}, height{}, preset{}, steps{}, guidance{}, mu{}, std_dev{}, seed{}, batch{}, precision{},
      attention{}, device{}, vram{}, threads{}, output{}, noise{}, dump{}, schedule_end{};
  std::vector<std::string> loras{};
  bool json = false, quiet = false, force = false, cpu_reference = false;
};

struct PlanArguments {
  std::optional<std::string> model{}, width{}, height{}, steps{}, text_tokens{}, precision{}, device{}, vram{};
  std::vector<std::string> loras{};
  bool json = false;
};

struct InspectArguments {
  std::string path{};
  std::string precision = "auto";
  std::optional<std::string> width{}, height{};
  bool json = false;
};

struct CaptionArguments {
  std::string path{};
  bool json = false;
};

}  // namespace octavo::cli
