// Any text as what a checkpoint says about its layers: the .comfy_quant marker of an int8 layer, the state of an NF4 layer, the header's metadata.
// A layer gets a problem, or it can be decoded to its last row.
#include <array>
#include <string>
#include <vector>

#include "fuzz/check.h"
#include "weights/dialect.h"

namespace {

struct Layers {
  std::array<std::byte, 8 * 64> codes{};
  std::array<float, 256> floats{};
};

// Six matrices whose sizes fit [8, 64], so that a right description is accepted: int8 with row scales and with one, NF4 plain and nested, FP8, and bytes
// that only their description could explain.
std::vector<octavo::StoredTensor> layers(const Layers& memory, std::span<const std::byte> text) {
  const auto bytes = std::span<const std::byte>(memory.codes);
  const auto floats = std::as_bytes(std::span(memory.floats));
  const std::int64_t length = std::int64_t(text.size());
  return {{"a.weight", "I8", {8, 64}, bytes},
          {"a.weight_scale", "F32", {8, 1}, floats.first(32)},
          {"a.comfy_quant", "U8", {length}, text},
          {"b.weight", "U8", {256, 1}, bytes.first(256)},
          {"b.weight.absmax", "F32", {8}, floats.first(32)},
          {"b.weight.quant_map", "F32", {16}, floats.first(64)},
          {"b.weight.quant_state.bitsandbytes__nf4", "U8", {length}, text},
          {"c.weight", "I8", {8, 64}, bytes},
          {"c.weight_scale", "F32", {}, floats.first(4)},
          {"d.weight", "U8", {256, 1}, bytes.first(256)},
          {"d.weight.absmax", "U8", {8}, bytes.first(8)},
          {"d.weight.nested_absmax", "F32", {1}, floats.first(4)},
          {"d.weight.nested_quant_map", "F32", {256}, floats},
          {"d.weight.quant_map", "F32", {16}, floats.first(64)},
          {"d.weight.quant_state.bitsandbytes__nf4", "U8", {length}, text},
          {"e.weight", "F8_E4M3", {8, 64}, bytes},
          {"e.weight_scale", "F32", {8}, floats.first(32)},
          {"e.comfy_quant", "U8", {length}, text},
          {"f.weight", "U8", {8, 64}, bytes},
          {"f.comfy_quant", "U8", {length}, text}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using octavo::fuzz::check;
  static const Layers memory;
  const std::span text(reinterpret_cast<const std::byte*>(data), size);
  const std::vector<octavo::StoredTensor> tensors = layers(memory, text);
  const octavo::Projections found = octavo::find_projections(tensors, {{"_quantization_metadata", std::string(reinterpret_cast<const char*>(data), size)}});
  check(found.linears.size() == 6, "every matrix is a projection, whatever is said about it");
  for (const auto& [module, linear] : found.linears) {
    if (!linear.problem.empty()) continue;
    check(linear.shape.rank() == 2, "a readable projection has two extents");
    check(linear.shape.elements() <= 8 * 64, "no more elements than there are codes");
    if (linear.shape.elements() == 0) continue;
    std::vector<float> w(std::size_t(linear.shape.elements()));
    octavo::decode_rows(linear, 0, linear.out_features(), w.data());
    octavo::decode_rows(linear, linear.out_features() - 1, 1, w.data());
  }
  return 0;
}
