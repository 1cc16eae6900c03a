#include "interrupt.h"

#include <csignal>

namespace octavo::cli {
namespace {

volatile std::sig_atomic_t caught = 0;

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = [](int signal) { caught = signal; };
  action.sa_flags = int(SA_RESETHAND);  // back to the default after the first: a second Ctrl-C ends the process at once
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file past the size that is allowed: the write says so, and what was written is taken back
}

bool was_interrupted() noexcept { return caught != 0; }
int interrupted_exit_code() noexcept { return 128 + (caught == 0 ? SIGINT : int(caught)); }

}  // namespace octavo::cli
