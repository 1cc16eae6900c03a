// From the tensors of a checkpoint to its projections: every dialect that people have, every layer its own. docs/design/0005-checkpoint-dialects.md
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"
#include "weights/stored_linear.h"

namespace octavo {

// One tensor of a file, with the container's name of its type: "BF16", "I8", "F8_E4M3", "Q4_K". `bytes` is aligned for the type,
// except of matrices (".weight").
struct StoredTensor {
  std::string name{};
  std::string type{};
  Shape shape{};
  std::span<const std::byte> bytes{};
};

struct Projections {
  std::map<std::string, StoredLinear, std::less<>> linears{};  // by module; every matrix that is a weight, plain ones too
  std::vector<std::string> companions{};                       // names of scales, markers and states: part of a projection, not parameters
  std::vector<std::string> remarks{};                          // what a person should know: the header contradicts a tensor, ...
};

// Which projection, in which format, from names, dtypes, marker JSON and header metadata. Reads nothing but small tensors (markers, states, scales).
// Never throws for a layer that it does not understand: that one carries its `problem`, so that a file with one odd layer that nobody reads still
// works. Where header metadata and tensors disagree the tensors win, with a remark.
Projections find_projections(std::span<const StoredTensor> tensors, const std::map<std::string, std::string>& metadata);

// "<module>" for "<module>.weight", ".bias", ".wq", ".weight_scale", ".weight.absmax", ...; the name itself if it has no such ending.
std::string_view module_of(std::string_view tensor_name);

// Decides what `smooth` does, since files do not say: undone the right way the weight correlates with the same layer of another precision, the wrong
// way it does not. Compares up to 64 rows. Returns the correlation of the better one.
struct SmoothingVerdict {
  Smoothing smoothing = Smoothing::divide;
  double correlation = 0;
};
SmoothingVerdict judge_smoothing(const StoredLinear& smoothed, const StoredLinear& reference);

}  // namespace octavo
