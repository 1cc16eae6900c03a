#include "weights/dialect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/json.h"
#include "octavo/error.h"
#include "quant/formats/gguf_blocks.h"
#include "quant/quantize.h"

namespace octavo {
namespace {

// Longest first where one is the end of another.
constexpr std::array<std::string_view, 18> kSuffixes{".weight.quant_state.bitsandbytes__nf4",
                                                     ".weight.quant_state.bitsandbytes__fp4",
                                                     ".weight.nested_quant_map",
                                                     ".weight.nested_absmax",
                                                     ".weight.quant_map",
                                                     ".weight.absmax",
                                                     ".weight_scale",
                                                     ".scale_weight",
                                                     ".weight_scale_2",
                                                     ".input_scale",
                                                     ".scale_input",
                                                     ".comfy_quant",
                                                     ".smooth",
                                                     ".SCB",
                                                     ".wq",
                                                     ".ws",
                                                     ".bias",
                                                     ".weight"};
constexpr std::string_view kNf4State = ".weight.quant_state.bitsandbytes__nf4";
constexpr std::string_view kFp4State = ".weight.quant_state.bitsandbytes__fp4";
constexpr std::string_view kKnown =
    "F32, BF16, F16, F8_E4M3 with weight_scale, I8 with weight_scale (int8_tensorwise, ConvRot or not), wq with ws, NF4 of bitsandbytes, GGUF Q8_0, Q4_0, Q4_K";

// The tensors of one module by suffix.
using Roles = std::map<std::string_view, const StoredTensor*>;

std::string_view suffix_of(std::string_view name) {
  for (const std::string_view suffix : kSuffixes) {
    if (name.ends_with(suffix) && name.size() > suffix.size()) return suffix;
  }
  return {};
}

// A layer that cannot be read: thrown while one is looked at, kept in the layer.
struct Problem {
  std::string text;
  bool is_unsupported;
};
[[noreturn]] void damaged(std::string text) { throw Problem{std::move(text), false}; }
[[noreturn]] void unknown(std::string text) { throw Problem{std::move(text), true}; }

std::optional<DType> float_dtype(std::string_view type) {
  if (type == "F32") return DType::f32;
  if (type == "BF16") return DType::bf16;
  if (type == "F16") return DType::f16;
  return std::nullopt;
}

std::int64_t matrix_rows(const Shape& shape) { return shape.rank() == 0 ? 1 : shape[0]; }

// [out, in] with every axis behind the first as columns.
Shape as_matrix(const Shape& shape) {
  const std::int64_t rows = matrix_rows(shape);
  return {rows, rows == 0 ? 0 : shape.elements() / rows};
}

struct Reader {
  const std::string& module;
  const Roles& roles;
  StoredLinear& linear;
  std::vector<std::string>& remarks;

  const StoredTensor* find(std::string_view suffix) const {
    const auto found = roles.find(suffix);
    return found == roles.end() ? nullptr : found->second;
  }
  const StoredTensor& need(std::string_view suffix, std::string_view reason) const {
    const StoredTensor* found = find(suffix);
    if (found == nullptr) damaged(fmt::format("linear '{}': {} but '{}{}' is missing; the file is incomplete", module, reason, module, suffix));
    return *found;
  }
  std::vector<float> floats(const StoredTensor& tensor) const {
    const auto dtype = float_dtype(tensor.type);
    if (!dtype) damaged(fmt::format("linear '{}': '{}' is {}; F32, BF16 or F16 was expected", module, tensor.name, tensor.type));
    std::vector<float> values(std::size_t(tensor.shape.elements()));
    load_as_float(tensor.bytes.data(), *dtype, tensor.shape.elements(), values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) damaged(fmt::format("linear '{}': '{}' holds {} at {}; the file is damaged", module, tensor.name, values[i], i));
    }
    return values;
  }
  std::vector<float> scales(const StoredTensor& tensor) const {
    const std::int64_t count = tensor.shape.elements();
    if (count != 1 && count != linear.out_features()) {
      damaged(fmt::format(
          "linear '{}': weight is {} {} but its scale {} has {} entries, not 1 or {}; the file is damaged, or its scales belong to blocks, which is not read",
          module, name_of(linear.format), linear.shape.text(), tensor.shape.text(), count, linear.out_features()));
    }
    return floats(tensor);
  }
  Json json(const StoredTensor& tensor) const {
    if (tensor.type != "U8") damaged(fmt::format("linear '{}': '{}' is {}; a JSON text in U8 was expected", module, tensor.name, tensor.type));
    std::string text(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();  // some writers pad
    try {
      Json value = parse_json(text, fmt::format("linear '{}': '{}'", module, tensor.name));
      if (!value.is_object()) damaged(fmt::format("linear '{}': '{}' is not a JSON object", module, tensor.name));
      return value;
    } catch (const Error& error) {
      damaged(error.what());
    }
  }

  void read(const Json* header);
  void plain(const StoredTensor& weight, DType dtype);
  void e4m3(const StoredTensor& weight);
  void int8(const StoredTensor& weight, const Json* header);
  void int8_smoothed(const StoredTensor& weight);
  void nf4(const StoredTensor& weight);
  void gguf(const StoredTensor& weight, LinearFormat format, std::int64_t block);
  void set_rotation(std::int64_t group, std::string_view source);
};

template <class T>
T field(const Reader& reader, const Json& object, const char* name, T otherwise) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return otherwise;
  try {
    if constexpr (std::is_same_v<T, bool>) {
      if (!found->is_boolean()) throw Problem{};
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      if (!found->is_number_integer() || (found->is_number_unsigned() && found->template get<std::uint64_t>() > std::uint64_t(INT64_MAX))) throw Problem{};
    } else if constexpr (std::is_same_v<T, double>) {
      if (!found->is_number()) throw Problem{};
    } else {
      if (!found->is_string()) throw Problem{};
    }
    return found->template get<T>();
  } catch (...) {
    damaged(
        fmt::format("linear '{}': \"{}\" in its description is {}, which has the wrong type", reader.module, name, excerpt(found->dump(-1, ' ', true), 40)));
  }
}

void Reader::plain(const StoredTensor& weight, DType dtype) {
  linear.format = LinearFormat::plain;
  linear.dialect = "plain";
  linear.dtype = dtype;
  linear.shape = as_matrix(weight.shape);
  if (const StoredTensor* marker = find(".comfy_quant")) {
    remarks.push_back(
        fmt::format("linear '{}': '{}' describes a quantised weight but the weight is {}; it is read as {}", module, marker->name, weight.type, weight.type));
  }
}

void Reader::e4m3(const StoredTensor& weight) {
  linear.format = LinearFormat::e4m3;
  linear.shape = as_matrix(weight.shape);
  linear.dialect = "FP8 without scale";
  if (const StoredTensor* marker = find(".comfy_quant")) {
    const std::string format = field<std::string>(*this, json(*marker), "format", "");
    if (!format.empty() && format != "float8_e4m3fn") {
      remarks.push_back(fmt::format("linear '{}': '{}' says {} but the weight is F8_E4M3; it is read as that", module, marker->name, excerpt(format, 40)));
    }
  }
  const StoredTensor* scale = find(".weight_scale");
  if (scale != nullptr) {
    linear.dialect = find(".comfy_quant") != nullptr ? "ComfyUI fp8_scaled" : "FP8 with weight_scale";
  } else if ((scale = find(".scale_weight")) != nullptr) {
    linear.dialect = "ComfyUI fp8_scaled, older";
  }
  linear.scale = scale != nullptr ? scales(*scale) : std::vector<float>{1.0f};  // a plain cast has no scale
}

void Reader::set_rotation(std::int64_t group, std::string_view source) {
  if (group > 1 << 20 || !is_rotation_group(int(group))) {
    damaged(fmt::format("linear '{}': {} gives a rotation group of {}; a power of 4 was expected", module, source, group));
  }
  if (linear.in_features() % group != 0) {
    damaged(
        fmt::format("linear '{}': {} gives a rotation group of {}, which does not divide its {} inputs; the file is damaged or was made by a faulty converter",
                    module, source, group, linear.in_features()));
  }
  linear.rotation_group = int(group);
}

void Reader::int8(const StoredTensor& weight, const Json* header) {
  linear.format = LinearFormat::s8;
  linear.shape = as_matrix(weight.shape);
  if (find(".SCB") != nullptr) unknown(fmt::format("linear '{}': is INT8 of bitsandbytes (SCB), which is not read; known are {}", module, kKnown));
  linear.scale = scales(need(".weight_scale", "weight is I8"));
  const StoredTensor* marker = find(".comfy_quant");
  linear.dialect = "INT8 with weight_scale";
  if (marker == nullptr && header == nullptr) return;

  Json description = marker != nullptr ? json(*marker) : *header;
  if (const auto nested = description.find("params"); nested != description.end() && nested->is_object()) {  // older files
    const Json params = *nested;
    for (const auto& [key, value] : params.items()) description[key] = value;
  }
  const std::string source = marker != nullptr ? fmt::format("'{}'", marker->name) : "the file's _quantization_metadata";
  const std::string format = field<std::string>(*this, description, "format", "");
  if (marker == nullptr && format != "int8_tensorwise") {
    remarks.push_back(fmt::format("linear '{}': {} says '{}' but the weight is I8; it is read as INT8 without rotation", module, source, excerpt(format, 40)));
    return;
  }
  if (!format.empty() && format != "int8_tensorwise") {
    unknown(fmt::format("linear '{}': {} says '{}'; known for I8 weights is int8_tensorwise", module, source, excerpt(format, 40)));
  }
  linear.dialect = format.empty() ? "INT8-Fast" : "ComfyUI int8_tensorwise";
  if (field<bool>(*this, description, "convrot", false)) set_rotation(field<std::int64_t>(*this, description, "convrot_groupsize", 256), source);
  if (field<bool>(*this, description, "per_row", false) && linear.scale.size() == 1 && linear.out_features() > 1) {
    remarks.push_back(fmt::format("linear '{}': {} promises row scales but there is one scale; it is used for all rows", module, source));
  }
}

void Reader::int8_smoothed(const StoredTensor& weight) {
  linear.format = LinearFormat::s8;
  linear.dialect = "W8A8 with wq and ws";
  linear.shape = as_matrix(weight.shape);
  if (weight.type != "I8") damaged(fmt::format("linear '{}': '{}' is {}; I8 was expected", module, weight.name, weight.type));
  linear.scale = scales(need(".ws", "has wq"));
  const StoredTensor* smooth = find(".smooth");
  if (smooth == nullptr) return;
  if (smooth->shape.elements() != linear.in_features()) {
    damaged(fmt::format("linear '{}': weight is int8 {} but its smoothing vector {} has {} entries, not {}", module, linear.shape.text(), smooth->shape.text(),
                        smooth->shape.elements(), linear.in_features()));
  }
  linear.smooth = floats(*smooth);
  if (std::find(linear.smooth.begin(), linear.smooth.end(), 0.0f) != linear.smooth.end()) {
    damaged(fmt::format("linear '{}': '{}' holds a zero; the file is damaged", module, smooth->name));
  }
  linear.smoothing = Smoothing::divide;
}

void Reader::nf4(const StoredTensor& weight) {
  linear.format = LinearFormat::nf4;
  linear.dialect = "NF4 of bitsandbytes";
  const Json state = json(need(kNf4State, "weight is packed"));
  const std::string type = field<std::string>(*this, state, "quant_type", "nf4");
  if (type != "nf4") unknown(fmt::format("linear '{}': its quant_type is '{}'; nf4 is read", module, excerpt(type, 40)));
  const auto shape = state.find("shape");
  std::vector<std::int64_t> extents;
  if (shape != state.end() && shape->is_array() && shape->size() <= std::size_t(Shape::kMaxRank)) {
    for (const Json& extent : *shape) {
      if (extent.is_number_unsigned() && extent.get<std::uint64_t>() < (1u << 30)) extents.push_back(extent.get<std::int64_t>());
    }
  }
  if (extents.size() != 2 || extents.size() != shape->size())
    damaged(fmt::format("linear '{}': its quantisation state has no \"shape\" of two extents", module));
  linear.shape = Shape{extents[0], extents[1]};
  const std::int64_t count = linear.shape.elements();
  Nf4Codes& codes = linear.nf4;
  codes.block = field<std::int64_t>(*this, state, "blocksize", 64);
  if (codes.block <= 0) damaged(fmt::format("linear '{}': its blocksize is {}", module, codes.block));

  const auto check = [&](const StoredTensor& tensor, std::string_view expected_type, std::int64_t expected) {
    if (tensor.type == expected_type && tensor.shape.elements() == expected) return;
    damaged(fmt::format("linear '{}': '{}' is {} {} but a weight {} in blocks of {} needs {} {}; the file is damaged", module, tensor.name, tensor.type,
                        tensor.shape.text(), linear.shape.text(), codes.block, expected, expected_type));
  };
  const auto ceil_of = [](std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); };
  check(weight, "U8", ceil_of(count, 2));
  codes.packed = reinterpret_cast<const std::uint8_t*>(weight.bytes.data());
  const StoredTensor& map = need(".weight.quant_map", "weight is packed");
  check(map, "F32", 16);
  codes.map = reinterpret_cast<const float*>(map.bytes.data());
  const StoredTensor& absmax = need(".weight.absmax", "weight is packed");
  const std::int64_t blocks = ceil_of(count, codes.block);
  if (absmax.type != "U8") {
    check(absmax, "F32", blocks);
    codes.absmax = reinterpret_cast<const float*>(absmax.bytes.data());
    return;
  }
  check(absmax, "U8", blocks);
  codes.nested.codes = reinterpret_cast<const std::uint8_t*>(absmax.bytes.data());
  codes.nested.block = field<std::int64_t>(*this, state, "nested_blocksize", 256);
  codes.nested.offset = float(field<double>(*this, state, "nested_offset", 0.0));
  if (codes.nested.block <= 0 || !std::isfinite(codes.nested.offset)) damaged(fmt::format("linear '{}': its nested statistics are not usable", module));
  const StoredTensor& nested_absmax = need(".weight.nested_absmax", "its scales are nested");
  check(nested_absmax, "F32", ceil_of(blocks, codes.nested.block));
  codes.nested.absmax = reinterpret_cast<const float*>(nested_absmax.bytes.data());
  const StoredTensor& nested_map = need(".weight.nested_quant_map", "its scales are nested");
  check(nested_map, "F32", 256);
  codes.nested.map = reinterpret_cast<const float*>(nested_map.bytes.data());
}

void Reader::gguf(const StoredTensor& weight, LinearFormat format, std::int64_t block) {
  linear.format = format;
  linear.dialect = "GGUF";
  linear.shape = as_matrix(weight.shape);
  if (linear.in_features() % block != 0) {
    damaged(fmt::format("linear '{}': {} {} has rows that do not fill blocks of {}", module, weight.type, linear.shape.text(), block));
  }
}

void Reader::read(const Json* header) {
  if (const StoredTensor* weight = find(".wq")) return int8_smoothed(*weight);
  const StoredTensor& weight = need(".weight", "has a description");
  const std::string& type = weight.type;
  if (const auto dtype = float_dtype(type)) {
    plain(weight, *dtype);
  } else if (type == "F8_E4M3") {
    e4m3(weight);
  } else if (type == "I8") {
    int8(weight, header);
  } else if (type == "U8" && find(kNf4State) != nullptr) {
    nf4(weight);
  } else if (type == "Q8_0") {
    gguf(weight, LinearFormat::q8_0, kQ8_0Block);
  } else if (type == "Q4_0") {
    gguf(weight, LinearFormat::q4_0, kQ4_0Block);
  } else if (type == "Q4_K") {
    gguf(weight, LinearFormat::q4_k, kQ4_KBlock);
  } else {
    constexpr std::string_view no_weights[] = {"I16", "I32", "I64", "U16", "U32", "U64", "BOOL"};
    if (std::find(std::begin(no_weights), std::end(no_weights), type) != std::end(no_weights)) {
      damaged(fmt::format("tensor '{}' is stored as {}, which is no format of weights; known are {}", weight.name, type, kKnown));
    }
    linear.shape = as_matrix(weight.shape);
    std::string found = type;
    if (find(kFp4State) != nullptr) found += " with an FP4 state";
    if (const StoredTensor* marker = find(".comfy_quant"))
      found += fmt::format(" described as '{}'", excerpt(field<std::string>(*this, json(*marker), "format", "?"), 40));
    unknown(fmt::format("linear '{}': its weight is {} {}; known are {}", module, found, weight.shape.text(), kKnown));
  }
}

// The header's "_quantization_metadata": {"layers": {module: description}}. Absent, or not usable: null, with a remark.
Json read_header(const std::map<std::string, std::string>& metadata, std::vector<std::string>& remarks) {
  const auto found = metadata.find("_quantization_metadata");
  if (found == metadata.end()) return nullptr;
  try {
    const Json value = parse_json(found->second, "_quantization_metadata");
    const auto layers = value.is_object() ? value.find("layers") : value.end();
    if (layers != value.end() && layers->is_object()) return *layers;
    remarks.push_back("the file's _quantization_metadata has no \"layers\"; it is not used");
  } catch (const Error& error) {
    remarks.push_back(fmt::format("{}; it is not used", error.what()));
  }
  return nullptr;
}

// What the header says about one module; files name it with or without the prefix that their tensors have.
const Json* header_of(const Json& layers, std::string_view module) {
  if (!layers.is_object()) return nullptr;
  for (const std::string_view prefix : {"", "model.diffusion_model.", "diffusion_model.", "model."}) {
    if (!module.starts_with(prefix)) continue;
    const auto found = layers.find(std::string(module.substr(prefix.size())));
    if (found != layers.end() && found->is_object()) return &*found;
  }
  return nullptr;
}

// The tensors win; a person should still know that the file contradicts itself.
void compare_with_header(const StoredLinear& linear, const Json& header, std::vector<std::string>& differing) {
  const auto text = [&](const char* name) { return header.contains(name) && header[name].is_string() ? header[name].get<std::string>() : std::string(); };
  const bool says_rotated = header.contains("convrot") && header["convrot"].is_boolean() && header["convrot"].get<bool>();
  const std::int64_t group = says_rotated && header.contains("convrot_groupsize") && header["convrot_groupsize"].is_number_integer()
                                 ? header["convrot_groupsize"].get<std::int64_t>()
                                 : 0;
  const std::string format = text("format");
  const std::string_view expected = linear.format == LinearFormat::s8 ? "int8_tensorwise" : linear.format == LinearFormat::e4m3 ? "float8_e4m3fn" : "";
  if ((!format.empty() && format != expected) || (linear.format == LinearFormat::s8 && group != linear.rotation_group)) differing.push_back(linear.module);
}

bool is_known_role(std::string_view suffix) { return suffix != ".weight" && suffix != ".bias"; }

std::int64_t bytes_in_file(const Roles& roles) {
  std::int64_t sum = 0;
  for (const auto& [suffix, tensor] : roles) {
    if (suffix != ".bias") sum += std::int64_t(tensor->bytes.size());
  }
  return sum;
}

}  // namespace

std::string_view module_of(std::string_view tensor_name) { return tensor_name.substr(0, tensor_name.size() - suffix_of(tensor_name).size()); }

Projections find_projections(std::span<const StoredTensor> tensors, const std::map<std::string, std::string>& metadata) {
  Projections result;
  std::map<std::string, Roles, std::less<>> modules;
  for (const StoredTensor& tensor : tensors) {
    const std::string_view suffix = suffix_of(tensor.name);
    if (tensor.name == "scaled_fp8" || tensor.name.ends_with(".scaled_fp8")) result.companions.push_back(tensor.name);  // ComfyUI's older file marker
    if (!suffix.empty()) modules[std::string(module_of(tensor.name))][suffix] = &tensor;
  }
  const Json layers = read_header(metadata, result.remarks);
  std::vector<std::string> differing;
  for (const auto& [module, roles] : modules) {
    const auto weight = roles.find(".weight");
    const bool has_description = std::any_of(roles.begin(), roles.end(), [](const auto& role) { return is_known_role(role.first); });
    const bool is_matrix = weight != roles.end() && weight->second->shape.rank() >= 2;
    if (!is_matrix && !has_description) continue;  // a norm, or a bias alone
    for (const auto& [suffix, tensor] : roles) {
      if (is_known_role(suffix)) result.companions.push_back(tensor->name);
    }
    const Json* header = header_of(layers, module);
    StoredLinear& linear = result.linears[module];
    linear.module = module;
    linear.bytes = bytes_in_file(roles);
    const auto wq = roles.find(".wq");
    const StoredTensor* codes = wq != roles.end() ? wq->second : weight != roles.end() ? weight->second : nullptr;
    if (codes != nullptr) linear.codes = codes->bytes.data();
    try {
      Reader{module, roles, linear, result.remarks}.read(header);
      if (header != nullptr) compare_with_header(linear, *header, differing);
    } catch (const Problem& problem) {
      linear.problem = problem.text;
      linear.is_unsupported = problem.is_unsupported;
    }
  }
  if (!differing.empty()) {
    const std::size_t shown = std::min<std::size_t>(differing.size(), 3);
    result.remarks.push_back(fmt::format("the file's _quantization_metadata contradicts the tensors of {} layer{} ({}{}); the tensors are believed",
                                         differing.size(), differing.size() == 1 ? "" : "s",
                                         fmt::join(differing.begin(), differing.begin() + std::ptrdiff_t(shown), ", "),
                                         differing.size() > shown ? ", ..." : ""));
  }
  return result;
}

namespace {

struct Correlation {
  double xy = 0, xx = 0, yy = 0;
  void add(double x, double y) { xy += x * y, xx += x * x, yy += y * y; }
  double value() const { return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0; }
};

}  // namespace

SmoothingVerdict judge_smoothing(const StoredLinear& smoothed, const StoredLinear& reference) {
  constexpr std::int64_t kRows = 64;
  const std::int64_t rows = std::min(kRows, smoothed.out_features());
  const std::int64_t columns = smoothed.in_features();
  if (reference.shape != smoothed.shape) {
    throw DataError(fmt::format("linear '{}': is {} but {} in the base model; the two files are of different models", smoothed.module, smoothed.shape.text(),
                                reference.shape.text()));
  }
  StoredLinear bare = smoothed;
  bare.smoothing = Smoothing::none;
  std::vector<float> stored(std::size_t(rows * columns)), expected(stored.size());
  decode_rows(bare, 0, rows, stored.data());
  decode_rows(reference, 0, rows, expected.data());
  SmoothingVerdict best;
  for (const Smoothing smoothing : {Smoothing::divide, Smoothing::multiply}) {
    Correlation correlation;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<float> w(stored.begin() + row * columns, stored.begin() + (row + 1) * columns);
      undo_smoothing(w.data(), columns, smoothing, smoothed.smooth.data());
      for (std::int64_t k = 0; k < columns; ++k) correlation.add(w[std::size_t(k)], expected[std::size_t(row * columns + k)]);
    }
    if (correlation.value() > best.correlation) best = {smoothing, correlation.value()};
  }
  return best;
}

}  // namespace octavo
