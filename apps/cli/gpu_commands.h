// `octavo tune` and `octavo bench`.
#pragma once

namespace CLI {
class App;
}

namespace octavo::cli {

void add_gpu_commands(CLI::App& program);
void add_tune_command(CLI::App& program);
void add_bench_command(CLI::App& program);

}  // namespace octavo::cli
