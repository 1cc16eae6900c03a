// The words of the command line, before anybody has looked at them. Filled in main.cpp, the only file that knows the parsing library.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace octavo::cli {

// Text stays text here: picture_options.cpp and generate.cpp turn it into numbers, so that every message has our own words and exit code 2.
// What drawing a picture and planning it have in common.
struct PictureArguments {
  std::optional<std::string> model{}, width{}, height{}, steps{}, precision{}, attention{}, device{}, vram{};
  std::vector<std::string> loras{};
  bool json = false;
};

struct GenerateArguments : PictureArguments {
  std::optional<std::string> prompt{}, prompt_file{}, preset{}, guidance{}, mu{}, std_dev{}, seed{}, batch{}, threads{}, output{}, noise{}, dump{},
      schedule_end{};
  bool quiet = false, force = false, cpu_reference = false;
};

struct PlanArguments : PictureArguments {
  std::optional<std::string> text_tokens{};
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
