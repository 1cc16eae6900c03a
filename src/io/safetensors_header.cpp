#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/checked_math.h"
#include "io/foreign_file.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"
#include "octavo/error.h"

namespace octavo {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100u << 20;  // the bound of the format's own library
constexpr std::uint64_t kLengthBytes = 8;

const SafetensorsDType* find_dtype(std::string_view name) {
  const auto* known = std::find_if(std::begin(kSafetensorsDTypes), std::end(kSafetensorsDTypes), [&](const SafetensorsDType& d) { return d.name == name; });
  return known == std::end(kSafetensorsDTypes) ? nullptr : known;
}

struct Context {
  const std::string& who;
  std::uint64_t data_offset;  // where the tensors' bytes begin in the file
  std::uint64_t data_bytes;   // how many there are

  [[noreturn]] void fail(std::string_view tensor, const std::string& what) const {
    throw DataError(fmt::format("{}: tensor '{}' {}", who, excerpt(tensor), what));
  }
};

const Json& field(const Context& context, std::string_view tensor, const Json& fields, const char* name) {
  const auto found = fields.find(name);
  if (found == fields.end()) context.fail(tensor, fmt::format("has no \"{}\"; the header is damaged", name));
  return *found;
}

// A non-negative integer that fits 63 bits, as sizes and offsets must be.
std::int64_t size_value(const Context& context, std::string_view tensor, const Json& value, const char* name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t(INT64_MAX)) {
    context.fail(tensor, fmt::format("has {} in \"{}\"; a whole number from 0 to 2^63 - 1 was expected", excerpt(value.dump(-1, ' ', true), 40), name));
  }
  return value.get<std::int64_t>();
}

Shape read_shape(const Context& context, std::string_view tensor, const Json& value) {
  if (!value.is_array()) context.fail(tensor, "has a \"shape\" that is not a list");
  if (value.size() > std::size_t(Shape::kMaxRank)) {
    throw Unsupported(fmt::format("{}: tensor '{}' has {} axes; this build reads at most {}", context.who, excerpt(tensor), value.size(), Shape::kMaxRank));
  }
  std::vector<std::int64_t> extents;
  for (const Json& extent : value) extents.push_back(size_value(context, tensor, extent, "shape"));
  return Shape(extents);
}

// Elements times bits, in bytes; the product must not wrap and must be whole bytes.
std::int64_t bytes_of_shape(const Context& context, const SafetensorsEntry& entry, int bits_per_element) {
  std::int64_t bits = bits_per_element;
  const bool is_empty = [&] {
    for (int axis = 0; axis < entry.shape.rank(); ++axis) {
      if (entry.shape[axis] == 0) return true;
    }
    return false;
  }();
  if (is_empty) return 0;  // before multiplying: [0, 2^62, 2^62] is empty, not an overflow
  for (int axis = 0; axis < entry.shape.rank(); ++axis) {
    const auto product = checked_mul(bits, entry.shape[axis]);
    if (!product) context.fail(entry.name, fmt::format("has the shape {}, which overflows 64 bits; the header is damaged", entry.shape.text()));
    bits = *product;
  }
  if (bits % 8 != 0) context.fail(entry.name, fmt::format("{} {} does not fill whole bytes", entry.dtype_name, entry.shape.text()));
  return bits / 8;
}

SafetensorsEntry read_entry(const Context& context, const std::string& name, const Json& fields) {
  if (!fields.is_object()) context.fail(name, "is not described by an object; the header is damaged");
  SafetensorsEntry entry{.name = name};
  const Json& dtype = field(context, name, fields, "dtype");
  if (!dtype.is_string()) context.fail(name, "has a \"dtype\" that is not a string");
  entry.dtype_name = dtype.get<std::string>();
  entry.shape = read_shape(context, name, field(context, name, fields, "shape"));

  const Json& offsets = field(context, name, fields, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) context.fail(name, "has \"data_offsets\" that are not a pair");
  const std::int64_t begin = size_value(context, name, offsets[0], "data_offsets");
  const std::int64_t end = size_value(context, name, offsets[1], "data_offsets");
  if (begin > end) context.fail(name, fmt::format("ends at byte {} before it begins at {}; the header is damaged", end, begin));
  if (std::uint64_t(end) > context.data_bytes) {
    context.fail(name, fmt::format("needs bytes up to {} of the data, but only {} follow the header; the file is truncated, download it again", end,
                                   context.data_bytes));
  }
  entry.offset = context.data_offset + std::uint64_t(begin);
  entry.bytes = std::uint64_t(end - begin);

  if (const SafetensorsDType* known = find_dtype(entry.dtype_name)) {
    entry.dtype = known->dtype;
    const std::int64_t needed = bytes_of_shape(context, entry, known->bits);
    if (std::uint64_t(needed) != entry.bytes) {
      context.fail(name, fmt::format("{} {} needs {} bytes but has {}; the header is damaged", entry.dtype_name, entry.shape.text(), needed, entry.bytes));
    }
  }
  return entry;
}

// The tensors must tile the data exactly: what nobody names could hide anything, what two name is surely a mistake.
void check_tiling(const Context& context, const std::vector<SafetensorsEntry>& entries) {
  std::uint64_t reached = context.data_offset;
  const SafetensorsEntry* previous = nullptr;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset < reached)
      context.fail(entry.name, fmt::format("overlaps '{}' by {} bytes; the header is damaged", excerpt(previous->name), reached - entry.offset));
    if (entry.offset > reached)
      context.fail(entry.name, fmt::format("begins after a gap of {} bytes that no tensor names; the header is damaged", entry.offset - reached));
    reached += entry.bytes;
    previous = &entry;
  }
  const std::uint64_t end = context.data_offset + context.data_bytes;
  if (reached != end) throw DataError(fmt::format("{}: {} bytes follow the last tensor; the file is damaged, download it again", context.who, end - reached));
}

std::map<std::string, std::string> read_metadata(const std::string& who, const Json& fields) {
  if (!fields.is_object()) throw DataError(fmt::format("{}: \"__metadata__\" is not an object of strings", who));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : fields.items()) {
    if (!value.is_string()) throw DataError(fmt::format("{}: \"__metadata__\" has '{}', which is not a string", who, excerpt(key)));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The header's text, after everything that can be wrong before it is one.
std::string_view header_text(std::span<const std::byte> head, std::uint64_t file_bytes, const std::string& who) {
  if (file_bytes == 0) throw DataError(fmt::format("{}: is empty; copy or download it again", who));
  const auto refuse = [&](const std::string& reason) {
    const std::string kind = foreign_kind(head);
    throw DataError(kind.empty() ? fmt::format("{}: {}", who, reason) : fmt::format("{}: is not a safetensors file but {}", who, kind));
  };
  if (head.size() < kLengthBytes) refuse(fmt::format("has {} bytes, too few for a safetensors file; it is truncated, download it again", file_bytes));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::uint64_t(head[i]) << (8 * i);
  if (length > kMaxHeaderBytes) {
    refuse(fmt::format("is not a safetensors file, or damaged: its header would have {} bytes, at most {} are allowed", length, kMaxHeaderBytes));
  }
  if (length > file_bytes - kLengthBytes || length > head.size() - kLengthBytes) {
    refuse(fmt::format("is truncated: its header has {} bytes but only {} follow; download it again", length,
                       std::min<std::uint64_t>(file_bytes, head.size()) - kLengthBytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + kLengthBytes, std::size_t(length));
  if (text.empty() || text.front() != '{') refuse("is not a safetensors file, or damaged: no JSON object follows the header's length");
  return text;
}

}  // namespace

std::vector<SafetensorsEntry> parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_bytes, const std::string& who,
                                                       std::map<std::string, std::string>* metadata) {
  const std::string_view text = header_text(head, file_bytes, who);
  const Json header = parse_json(text, who + ": the header");
  const std::uint64_t data_offset = kLengthBytes + text.size();
  const Context context{who, data_offset, file_bytes - data_offset};

  std::vector<SafetensorsEntry> entries;
  entries.reserve(header.size());
  for (const auto& [name, fields] : header.items()) {
    if (name == "__metadata__") {
      auto strings = read_metadata(who, fields);
      if (metadata != nullptr) *metadata = std::move(strings);
    } else {
      entries.push_back(read_entry(context, name, fields));
    }
  }
  // An empty tensor shares its offset with the tensor after it and must come first.
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes); });
  check_tiling(context, entries);
  return entries;
}

}  // namespace octavo
