#include "api/linear_shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <string_view>

#include "models/linear_shapes.h"
#include "octavo/error.h"
#include "quant/quantize.h"

namespace octavo {
namespace {

constexpr std::int64_t kMaxSide = std::int64_t(1) << 24;

[[noreturn]] void refuse(const std::string& who, std::string_view text, std::string_view why) {
  throw InvalidArgument(fmt::format("{}: --shapes '{}': {}; give M,N,K[;M,N,K...] such as 4096,13824,4608, or one of: {}", who, text, why,
                                    fmt::join(models::kLinearShapeSets, ", ")));
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(at, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::int64_t side(const std::string& who, std::string_view text, std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > kMaxSide)
    refuse(who, text, fmt::format("'{}' is not a number from 1 to {}", word, kMaxSide));
  return value;
}

}  // namespace

std::vector<LinearShape> parse_linear_shapes(const std::string& who, const std::string& text) {
  std::vector<LinearShape> shapes;
  for (const models::LinearShapeRow& row : models::linear_shapes(text.empty() ? models::kDefaultLinearShapeSet : std::string_view(text))) {
    shapes.push_back({.name = std::string(row.layer), .m = row.m, .n = row.n, .k = row.k});
  }
  if (!shapes.empty()) return shapes;
  for (const std::string_view word : split(text, ';')) {
    const auto sides = split(word, ',');
    if (sides.size() != 3) refuse(who, text, fmt::format("'{}' has {} numbers instead of three", word, sides.size()));
    const auto rows = split(sides[0], '+');
    if (rows.size() > 2) refuse(who, text, "at most two problems share a launch");
    LinearShape shape{.m = side(who, text, rows[0]), .n = side(who, text, sides[1]), .k = side(who, text, sides[2])};
    if (rows.size() == 2) shape.m2 = side(who, text, rows[1]);
    if (shape.k > kMaxExactK) refuse(who, text, fmt::format("K {} is over {}, beyond which an int32 sum could overflow", shape.k, kMaxExactK));
    shapes.push_back(shape);
  }
  return shapes;
}

std::string shape_text(const LinearShape& shape) {
  const std::string rows = shape.m2 > 0 ? fmt::format("{}+{}", shape.m, shape.m2) : fmt::format("{}", shape.m);
  return fmt::format("{}{}{}x{}x{}", shape.name, shape.name.empty() ? "" : " ", rows, shape.n, shape.k);
}

BenchGpu bench_gpu(const std::string& who, const std::string& text) {
  if (text == "cpu") throw InvalidArgument(fmt::format("{}: --device cpu: this measures GPU kernels; give cuda or cuda:N", who));
  const GpuList list = list_gpus();
  if (list.gpus.empty())
    throw Unsupported(fmt::format("{}: this measures GPU kernels, and no GPU can be used: {}; run it on a machine with an NVIDIA GPU", who, list.reason));
  const Device device = parse_device(text == "auto" ? "cuda" : text);
  return {device, list.gpus[std::size_t(device.index)]};
}

}  // namespace octavo
