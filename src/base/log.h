// One sink, five levels, topics instead of verbosity. OCTAVO_LOG=info,dispatch=debug
// Lines are "topic: sentence". The library logs to stderr at `warn` and above unless told otherwise.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace octavo::log {

enum class Level { error, warn, info, debug, trace };

using Sink = std::function<void(Level, std::string_view topic, std::string_view text)>;

// Replaces the sink (an empty one restores stderr). The one global of the library.
void set_sink(Sink sink);
// Levels from the grammar of OCTAVO_LOG; unknown words are ignored with one warning.
void configure(std::string_view spec);
bool enabled(Level level, std::string_view topic);
void write(Level level, std::string_view topic, std::string_view text);

template <class... Args>
void warn(std::string_view topic, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warn, topic)) write(Level::warn, topic, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(std::string_view topic, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info, topic)) write(Level::info, topic, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void debug(std::string_view topic, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug, topic)) write(Level::debug, topic, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace octavo::log
