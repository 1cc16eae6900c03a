#include "base/log.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>

namespace octavo::log {
namespace {

constexpr std::string_view kLevelNames[] = {"error", "warn", "info", "debug", "trace"};

std::optional<Level> level_named(std::string_view name) {
  for (int i = 0; i < 5; ++i) {
    if (kLevelNames[i] == name) return static_cast<Level>(i);
  }
  return std::nullopt;
}

struct State {
  std::mutex mutex;
  Sink sink;
  Level default_level = Level::warn;
  std::map<std::string, Level, std::less<>> topic_levels;
};

void apply(State& state, std::string_view spec) {
  while (!spec.empty()) {
    const auto comma = spec.find(',');
    const auto item = spec.substr(0, comma);
    spec = comma == std::string_view::npos ? std::string_view{} : spec.substr(comma + 1);
    const auto equals = item.find('=');
    const auto level = level_named(equals == std::string_view::npos ? item : item.substr(equals + 1));
    if (!level) {
      if (!item.empty()) std::fprintf(stderr, "log: ignored '%.*s' in OCTAVO_LOG\n", int(item.size()), item.data());
      continue;
    }
    if (equals == std::string_view::npos) {
      state.default_level = *level;
    } else {
      state.topic_levels.insert_or_assign(std::string(item.substr(0, equals)), *level);
    }
  }
}

State& state() {
  static State* instance = [] {
    auto* created = new State;  // never destroyed: destructors of statics may still log
    if (const char* spec = std::getenv("OCTAVO_LOG")) apply(*created, spec);
    return created;
  }();
  return *instance;
}

}  // namespace

void set_sink(Sink sink) {
  const std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

void configure(std::string_view spec) {
  const std::lock_guard lock(state().mutex);
  apply(state(), spec);
}

bool enabled(Level level, std::string_view topic) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().topic_levels.find(topic);
  return level <= (found == state().topic_levels.end() ? state().default_level : found->second);
}

void write(Level level, std::string_view topic, std::string_view text) {
  const std::lock_guard lock(state().mutex);
  if (state().sink) return state().sink(level, topic, text);
  const std::string line = fmt::format("{}{}: {}\n", level == Level::warn ? "warning: " : level == Level::error ? "error: " : "", topic, text);
  std::fwrite(line.data(), 1, line.size(), stderr);  // fmt::print would throw where nobody can read it
}

}  // namespace octavo::log
