// What every model does with its checkpoint before it reads a weight.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ops/exec_context.h"
#include "weights/weight_store.h"

namespace octavo::models {

// The first of `prefixes` under which `probe` exists; the first one if none does (the missing names are then reported by check).
std::string find_prefix(const WeightStore& store, std::span<const std::string_view> prefixes, std::string_view probe);

// Checks the list and tells the observer (or the log) about tensors that nobody asked for: one line with the first few names and the count.
void check_parameters(const ExecContext& ctx, const WeightStore& store, std::span<const ParamSpec> specs, std::span<const std::string_view> ignored_prefixes);

// A quantised file laid over a whole model: the *.safetensors file in the model's folder itself that has "<prefix><module>.wq" tensors, if there is
// one. Throws InvalidArgument if there are several.
std::optional<WeightOverlay> find_overlay(const std::filesystem::path& model_folder, const std::string& prefix);

// One line that a person may want to know: to the observer if there is one, else a warning in the log.
void advise(const ExecContext& ctx, const std::string& line);

// Throws Cancelled if the observer asks for it.
void stop_if_cancelled(const ExecContext& ctx, std::string_view who);

}  // namespace octavo::models
