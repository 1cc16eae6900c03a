// Ctrl-C: the first one asks to stop, the second one kills.
#pragma once

namespace octavo::cli {

void catch_interrupts();  // SIGINT and SIGTERM
bool was_interrupted() noexcept;
int interrupted_exit_code() noexcept;  // 130 after SIGINT, 143 after SIGTERM

}  // namespace octavo::cli
