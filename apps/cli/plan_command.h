// `octavo plan`.
#pragma once

namespace CLI {
class App;
}

namespace octavo::cli {

void add_plan_command(CLI::App& program);

}  // namespace octavo::cli
