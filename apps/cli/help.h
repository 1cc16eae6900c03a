// What --help says before the list of options: examples first, the way a tired person reads.
#pragma once

namespace octavo::cli {

inline constexpr const char* kProgramHelp = R"(Draws pictures from prompts.

Examples:
  octavo generate --prompt "three orange stars in a row on a blue background" --output stars.png
  octavo generate --model ideogram-4 --prompt-file caption.json --preset turbo-12 --output poster.png
  octavo inspect stars.png
  octavo generate --help
)";

inline constexpr const char* kGenerateHelp = R"(Draws pictures from a prompt and writes them as PNG. The path of each picture is printed on standard output.

Examples:
  octavo generate --prompt "a yellow moon in the top right corner on a navy background" --output moon.png
  octavo generate --prompt-file caption.json --width 1536 --height 1024 --preset quality-48 --output poster.png
  octavo generate --prompt "two green squares in a row on a yellow background" --seed 7 --batch 3 --output squares.png
  echo "a large red circle in the center on a white background" | octavo generate --prompt-file - --output - --quiet > circle.png
  octavo generate --prompt "a large red circle in the center on a white background" --precision w8a8 --steps 8 --guidance 4 --json
  octavo generate --model ideogram-4 --prompt-file caption.json --lora style.safetensors:0.8 --lora light.safetensors --output styled.png

What an option leaves open comes from --preset, then from the model's own defaults, then from default-20 at 1024x1024.
)";

inline constexpr const char* kInspectHelp =
    R"(Says what is in a model folder, a file with weights or a picture, without loading it. Which dialect, which layers run as
they are stored and why the others do not, how much memory a picture would take.

Examples:
  octavo inspect models/demo
  octavo inspect ideogram-4-int8 --precision w8a8 --width 1536 --height 1024
  octavo inspect models/demo/vae/diffusion_pytorch_model.safetensors --json
  octavo inspect stars.png             # the request it was drawn from, and the command that repeats it
)";

inline constexpr const char* kDevicesHelp = R"(Lists the CPU, the GPUs (or why there are none) and which precision runs where.

Examples:
  octavo devices
  octavo devices --json
)";

inline constexpr const char* kCaptionHelp = R"(Helps with JSON captions.

Examples:
  octavo caption check caption.json
  octavo caption compact caption.json > compact.json
)";

inline constexpr const char* kCaptionCheckHelp = R"(Says what the model's publishers would find wrong with a caption. Findings are warnings: the exit code is 0.

Examples:
  octavo caption check caption.json
  octavo caption check - --json < caption.json
)";

inline constexpr const char* kCaptionCompactHelp =
    R"(Writes a caption in the compact form that the model was trained on, keys in their order, to standard output.

Examples:
  octavo caption compact caption.json > compact.json
)";

inline constexpr const char* kVersionHelp = R"(Prints the version and what this build contains.

Examples:
  octavo version
  octavo version --json
)";

}  // namespace octavo::cli
