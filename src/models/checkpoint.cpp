#include "models/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "io/safetensors.h"
#include "octavo/error.h"

namespace octavo::models {

std::string find_prefix(const WeightStore& store, std::span<const std::string_view> prefixes, std::string_view probe) {
  for (const std::string_view prefix : prefixes) {
    if (store.has(fmt::format("{}{}", prefix, probe))) return std::string(prefix);
  }
  return std::string(prefixes.front());
}

void check_parameters(const ExecContext& ctx, const WeightStore& store, std::span<const ParamSpec> specs, std::span<const std::string_view> ignored_prefixes) {
  const std::vector<std::string> unused = store.check(specs, ignored_prefixes);
  for (const std::string& remark : store.remarks()) advise(ctx, fmt::format("{}: {}", store.component(), remark));
  if (unused.empty()) return;
  constexpr std::size_t kShown = 3;
  const auto shown = std::span(unused).first(std::min(kShown, unused.size()));
  const std::string more = unused.size() > kShown ? fmt::format(" and {} more", unused.size() - kShown) : "";
  advise(ctx, fmt::format("{}: {} tensor{} in the file {} not part of this model and {} not read: {}{}", store.component(), unused.size(),
                          unused.size() == 1 ? "" : "s", unused.size() == 1 ? "is" : "are", unused.size() == 1 ? "is" : "are", fmt::join(shown, ", "), more));
}

std::optional<WeightOverlay> find_overlay(const std::filesystem::path& model_folder, const std::string& prefix) {
  std::optional<WeightOverlay> found;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator(model_folder, ignored)) {
    if (item.path().extension() != ".safetensors" || !item.is_regular_file()) continue;
    const SafetensorsFile file(item.path());
    const auto belongs = [&](const SafetensorsEntry& entry) { return entry.name.starts_with(prefix) && entry.name.ends_with(".wq"); };
    if (std::none_of(file.entries().begin(), file.entries().end(), belongs)) continue;
    if (found) {
      throw InvalidArgument(fmt::format("model '{}': both '{}' and '{}' hold quantised layers for it; keep one of them", model_folder.string(),
                                        found->file.filename().string(), item.path().filename().string()));
    }
    found = WeightOverlay{item.path(), prefix};
  }
  return found;
}

void advise(const ExecContext& ctx, const std::string& line) {
  if (ctx.observer != nullptr) return ctx.observer->on_advisory(line);
  log::warn("load", "{}", line);
}

void stop_if_cancelled(const ExecContext& ctx, std::string_view who) {
  if (ctx.observer != nullptr && ctx.observer->cancelled()) throw Cancelled(fmt::format("{}: stopped as asked", who));
}

}  // namespace octavo::models
