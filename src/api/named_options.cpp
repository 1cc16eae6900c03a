#include "api/named_options.h"

#include <fmt/format.h>

#include "octavo/error.h"

namespace octavo {

std::optional<Precision> precision_named(std::string_view who, const std::string& name) {
  if (name == "auto") return std::nullopt;
  if (const Precision* found = precision::find(name)) return *found;
  std::string known;
  for (const Precision& candidate : precision::all) known += fmt::format(", {}", candidate.name);
  throw InvalidArgument(fmt::format("{}: --precision '{}' is unknown; known: auto{}", who, name, known));
}

AttentionKind attention_named(std::string_view who, const std::string& name) {
  if (name == "auto") return AttentionKind::automatic;
  if (name == "bf16") return AttentionKind::floats;
  if (name == "int8") return AttentionKind::int8;
  throw InvalidArgument(fmt::format("{}: --attention '{}' is unknown; known: auto, bf16, int8", who, name));
}

}  // namespace octavo
