#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace octavo::cli {
namespace {

std::string duration(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace

std::string progress_text(const Progress& progress, int pictures) {
  std::string text = pictures > 1 && progress.part != "load" && progress.part != "encode" ? fmt::format("picture {}/{}  ", progress.picture + 1, pictures) : "";
  text += progress.steps > 1 ? fmt::format("{} {}/{}", progress.part, progress.step, progress.steps) : progress.part;
  if (progress.step == 0) return text;
  if (progress.part != "denoise") return text + fmt::format("  {}", duration(progress.seconds));
  const double per_step = progress.seconds / progress.step;
  const double steps_left = double(progress.steps - progress.step) + double(pictures - 1 - progress.picture) * progress.steps;
  return text + fmt::format("  {:.2f} s/step  {} left", per_step, duration(per_step * steps_left));
}

void say(const std::string& text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

ProgressDisplay::ProgressDisplay(bool quiet, int pictures) : quiet_(quiet), pictures_(pictures), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressDisplay::show(const Progress& progress) {
  if (quiet_) return;
  if (is_terminal_) {
    say(fmt::format("\r\x1b[K{}", progress_text(progress, pictures_)));
    has_line_ = true;
    return;
  }
  // A log wants results, not beginnings: every step of the denoiser, the end of the other parts.
  const bool is_worth_a_line = progress.part == "denoise" ? progress.step > 0 : progress.step == progress.steps;
  if (is_worth_a_line) say(progress_text(progress, pictures_) + "\n");
}

void ProgressDisplay::note(const std::string& line) {
  if (quiet_) return;
  clear();
  say(fmt::format("note: {}\n", line));
}

void ProgressDisplay::clear() {
  if (!has_line_) return;
  say("\r\x1b[K");
  has_line_ = false;
}

}  // namespace octavo::cli
