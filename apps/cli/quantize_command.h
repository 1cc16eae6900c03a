// `octavo quantize`.
#pragma once

namespace CLI {
class App;
}

namespace octavo::cli {

void add_quantize_command(CLI::App& program);

}  // namespace octavo::cli
