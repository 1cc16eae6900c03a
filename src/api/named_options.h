// Options that are names, understood and refused in the same words everywhere. `who`: the command, for messages.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/exec_context.h"
#include "quant/precision.h"

namespace octavo {

// Nothing for "auto", which every command decides for itself. Throws InvalidArgument.
std::optional<Precision> precision_named(std::string_view who, const std::string& name);
// "auto", "bf16", "int8". Throws InvalidArgument.
AttentionKind attention_named(std::string_view who, const std::string& name);

}  // namespace octavo
