#include "io/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/checked_math.h"
#include "base/files.h"
#include "io/foreign_file.h"
#include "io/json.h"
#include "io/utf8.h"
#include "octavo/error.h"

namespace octavo {
namespace {

// The published type ids. Types that nobody decodes here are listed too, so that an error can name them.
constexpr GgufType kTypes[] = {
    {0, "F32", 1, 4},       {1, "F16", 1, 2},        {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},    {9, "Q8_1", 32, 36},     {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210}, {15, "Q8_K", 256, 292},  {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18}, {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},      {27, "I64", 1, 8},       {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66}, {39, "MXFP4", 32, 17},
};

constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = 1u << 20;
constexpr std::uint64_t kMaxNameBytes = 65535;  // the format's own bound on keys; tensor names are shorter still
constexpr int kMaxArrayDepth = 4;

// Value types of key-values.
enum ValueType : std::uint32_t { kU8, kS8, kU16, kS16, kU32, kS32, kF32, kBool, kString, kArray, kU64, kS64, kF64 };
constexpr int kValueBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // 0: not of fixed size

// Reads forward through the file; every read is checked against its end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, const std::string& who) : file_(file), who_(who) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return file_.size() - at_; }
  [[noreturn]] void fail(const std::string& what) const { throw DataError(fmt::format("{}: {}", who_, what)); }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > left())
      fail(fmt::format("ends at byte {} inside {}, which needs {} bytes from {} on; the file is truncated, download it again", file_.size(), what, count, at_));
    const auto part = file_.subspan(std::size_t(at_), std::size_t(count));
    at_ += count;
    return part;
  }
  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::string string(std::uint64_t max_bytes, std::string_view what) {
    const auto length = number<std::uint64_t>(what);
    if (length > max_bytes) fail(fmt::format("{} is said to be {} bytes long, at most {} are plausible; the header is damaged", what, length, max_bytes));
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> file_;
  const std::string& who_;
  std::uint64_t at_ = 0;
};

const GgufType& find_type(const Cursor& cursor, const std::string& tensor, std::uint32_t id) {
  for (const GgufType& type : kTypes) {
    if (type.id == id) return type;
  }
  cursor.fail(fmt::format("tensor '{}' has the type id {}, which is not known; the file is damaged or newer than this program", excerpt(tensor), id));
}

std::string skip_array(Cursor& cursor, const std::string& key, int depth);

// Passes over one value and says it as text.
std::string read_value(Cursor& cursor, const std::string& key, std::uint32_t type, int depth) {
  switch (type) {
    case kU8:
      return fmt::to_string(cursor.number<std::uint8_t>(key));
    case kS8:
      return fmt::to_string(cursor.number<std::int8_t>(key));
    case kU16:
      return fmt::to_string(cursor.number<std::uint16_t>(key));
    case kS16:
      return fmt::to_string(cursor.number<std::int16_t>(key));
    case kU32:
      return fmt::to_string(cursor.number<std::uint32_t>(key));
    case kS32:
      return fmt::to_string(cursor.number<std::int32_t>(key));
    case kU64:
      return fmt::to_string(cursor.number<std::uint64_t>(key));
    case kS64:
      return fmt::to_string(cursor.number<std::int64_t>(key));
    case kF32:
      return fmt::to_string(cursor.number<float>(key));
    case kF64:
      return fmt::to_string(cursor.number<double>(key));
    case kBool:
      return cursor.number<std::uint8_t>(key) != 0 ? "true" : "false";
    case kString:
      return cursor.string(cursor.left(), fmt::format("the value of '{}'", excerpt(key)));
    case kArray:
      return skip_array(cursor, key, depth);
    default:
      cursor.fail(fmt::format("the key '{}' has the value type {}, which is not known; the header is damaged", excerpt(key), type));
  }
}

std::string skip_array(Cursor& cursor, const std::string& key, int depth) {
  if (depth >= kMaxArrayDepth) cursor.fail(fmt::format("the key '{}' nests arrays more than {} deep; the header is damaged", excerpt(key), kMaxArrayDepth));
  const auto type = cursor.number<std::uint32_t>(key);
  const auto count = cursor.number<std::uint64_t>(key);
  const std::string what = fmt::format("an array of '{}'", excerpt(key));
  if (type < std::size(kValueBytes) && kValueBytes[type] > 0) {
    if (count > cursor.left()) cursor.fail(fmt::format("{} is said to have {} values, more than the file has bytes; the header is damaged", what, count));
    cursor.take(count * std::uint64_t(kValueBytes[type]), what);
  } else {
    for (std::uint64_t i = 0; i < count; ++i) read_value(cursor, key, type, depth + 1);  // each takes 8 bytes or more, so the end stops it
  }
  return fmt::format("[{} values]", count);
}

GgufMetadata read_metadata(Cursor& cursor, std::uint64_t count) {
  GgufMetadata metadata;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string key = cursor.string(kMaxNameBytes, fmt::format("key {} of {}", i + 1, count));
    const auto type = cursor.number<std::uint32_t>(key);
    std::string value = read_value(cursor, key, type, 0);
    if (!metadata.emplace(key, std::move(value)).second) cursor.fail(fmt::format("the key '{}' occurs twice; the header is damaged", excerpt(key)));
  }
  return metadata;
}

std::uint64_t read_alignment(const Cursor& cursor, const GgufMetadata& metadata) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefaultAlignment;
  std::uint64_t alignment = 0;
  for (const char c : found->second) {
    if (c < '0' || c > '9' || alignment > kMaxAlignment) {
      alignment = 0;
      break;
    }
    alignment = alignment * 10 + std::uint64_t(c - '0');
  }
  if (alignment == 0 || alignment > kMaxAlignment || alignment % 8 != 0) {
    cursor.fail(fmt::format("general.alignment is {}; a multiple of 8 up to {} was expected", excerpt(found->second), kMaxAlignment));
  }
  return alignment;
}

// Extents, slowest first, and the bytes they take.
void read_extents(Cursor& cursor, const std::string& who, GgufEntry& entry) {
  const auto axes = cursor.number<std::uint32_t>("a tensor's description");
  if (axes > std::uint32_t(Shape::kMaxRank))
    throw Unsupported(fmt::format("{}: tensor '{}' has {} axes; this build reads at most {}", who, excerpt(entry.name), axes, Shape::kMaxRank));
  std::vector<std::int64_t> extents(axes);
  for (std::uint32_t axis = 0; axis < axes; ++axis) {
    const auto extent = cursor.number<std::uint64_t>("a tensor's description");
    if (extent == 0 || extent > std::uint64_t(INT64_MAX))
      cursor.fail(fmt::format("tensor '{}' has an extent of {}; the header is damaged", excerpt(entry.name), extent));
    extents[axes - 1 - axis] = std::int64_t(extent);
  }
  entry.shape = Shape(extents);
  entry.type = &find_type(cursor, entry.name, cursor.number<std::uint32_t>("a tensor's description"));

  const std::int64_t columns = axes == 0 ? 1 : extents.back();
  if (columns % entry.type->block != 0) {
    cursor.fail(fmt::format("tensor '{}' {} has {} columns, which do not fill the blocks of {} that {} has; the header is damaged", excerpt(entry.name),
                            entry.shape.text(), columns, entry.type->block, entry.type->name));
  }
  std::int64_t bytes = std::int64_t(entry.type->block_bytes);
  for (std::uint32_t axis = 0; axis < axes; ++axis) {
    const auto product = checked_mul(bytes, axis + 1 == axes ? extents[axis] / entry.type->block : extents[axis]);
    if (!product)
      cursor.fail(fmt::format("tensor '{}' has the shape {}, which overflows 64 bits; the header is damaged", excerpt(entry.name), entry.shape.text()));
    bytes = *product;
  }
  entry.bytes = std::uint64_t(bytes);
}

std::vector<GgufEntry> read_tensors(Cursor& cursor, const std::string& who, std::uint64_t count) {
  std::vector<GgufEntry> entries;
  std::unordered_set<std::string> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    GgufEntry entry{.name = cursor.string(kMaxNameBytes, fmt::format("the name of tensor {} of {}", i + 1, count))};
    if (const std::size_t bad = first_invalid_byte(entry.name); bad != std::string::npos)
      cursor.fail(fmt::format("the name of tensor {} of {} is not UTF-8 at its byte {}; the header is damaged", i + 1, count, bad));
    if (!names.insert(entry.name).second) cursor.fail(fmt::format("tensor '{}' occurs twice; the header is damaged", excerpt(entry.name)));
    read_extents(cursor, who, entry);
    entry.offset = cursor.number<std::uint64_t>("a tensor's description");  // from the start of the data, for now
    entries.push_back(std::move(entry));
  }
  return entries;
}

// Offsets become offsets into the file. Padding between tensors is allowed, overlap is not.
void place_tensors(const Cursor& cursor, std::vector<GgufEntry>& entries, std::uint64_t data_offset, std::uint64_t file_bytes, std::uint64_t alignment) {
  for (GgufEntry& entry : entries) {
    if (entry.offset % alignment != 0)
      cursor.fail(fmt::format("tensor '{}' begins at byte {} of the data, which is not a multiple of {}; the header is damaged", excerpt(entry.name),
                              entry.offset, alignment));
    const std::uint64_t room = file_bytes > data_offset ? file_bytes - data_offset : 0;
    if (entry.offset > room || entry.bytes > room - entry.offset) {
      cursor.fail(fmt::format("tensor '{}' needs {} bytes from byte {} of the data, but only {} follow the header; the file is truncated, download it again",
                              excerpt(entry.name), entry.bytes, entry.offset, room));
    }
    entry.offset += data_offset;
  }
  std::sort(entries.begin(), entries.end(), [](const GgufEntry& a, const GgufEntry& b) { return a.offset < b.offset; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const std::uint64_t end = entries[i - 1].offset + entries[i - 1].bytes;
    if (entries[i].offset < end)
      cursor.fail(fmt::format("tensor '{}' overlaps '{}' by {} bytes; the header is damaged", excerpt(entries[i].name), excerpt(entries[i - 1].name),
                              end - entries[i].offset));
  }
}

void check_version(const std::string& who, std::uint32_t version) {
  if (version == 2 || version == 3) return;
  if ((version & 0xffffu) == 0 && version != 0) throw Unsupported(fmt::format("{}: is a big-endian GGUF file; convert it to little endian", who));
  throw Unsupported(fmt::format("{}: is GGUF version {}; versions 2 and 3 are read, so convert it anew with a current tool", who, version));
}

}  // namespace

std::vector<GgufEntry> parse_gguf_header(std::span<const std::byte> file, const std::string& who, GgufMetadata* metadata) {
  if (file.empty()) throw DataError(fmt::format("{}: is empty; copy or download it again", who));
  if (file.size() < 4 || std::memcmp(file.data(), "GGUF", 4) != 0) {
    const std::string kind = foreign_kind(file);
    throw DataError(fmt::format("{}: is not a GGUF file{}", who, kind.empty() ? "; it does not begin with 'GGUF'" : fmt::format(" but {}", kind)));
  }
  Cursor cursor(file, who);
  cursor.take(4, "the file's first bytes");
  check_version(who, cursor.number<std::uint32_t>("the version"));
  const auto tensors = cursor.number<std::uint64_t>("the number of tensors");
  const auto keys = cursor.number<std::uint64_t>("the number of keys");
  GgufMetadata values = read_metadata(cursor, keys);
  const std::uint64_t alignment = read_alignment(cursor, values);
  std::vector<GgufEntry> entries = read_tensors(cursor, who, tensors);
  place_tensors(cursor, entries, (cursor.at() + alignment - 1) / alignment * alignment, file.size(), alignment);
  if (metadata != nullptr) *metadata = std::move(values);
  return entries;
}

struct GgufFile::Impl {
  explicit Impl(const std::filesystem::path& path) : file(path) {
    entries = parse_gguf_header(file.bytes(), fmt::format("file '{}'", path.string()), &metadata);
    for (const GgufEntry& entry : entries) by_name.emplace(entry.name, &entry);
  }
  MappedFile file;
  GgufMetadata metadata{};
  std::vector<GgufEntry> entries{};
  std::unordered_map<std::string_view, const GgufEntry*> by_name{};  // names live in `entries`
};

GgufFile::GgufFile(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
GgufFile::~GgufFile() = default;
GgufFile::GgufFile(GgufFile&&) noexcept = default;

const std::filesystem::path& GgufFile::path() const { return impl_->file.path(); }
std::span<const GgufEntry> GgufFile::entries() const { return impl_->entries; }
const GgufMetadata& GgufFile::metadata() const { return impl_->metadata; }

const GgufEntry* GgufFile::find(std::string_view name) const {
  const auto found = impl_->by_name.find(name);
  return found == impl_->by_name.end() ? nullptr : found->second;
}

std::span<const std::byte> GgufFile::data(const GgufEntry& entry) const {
  return impl_->file.bytes().subspan(std::size_t(entry.offset), std::size_t(entry.bytes));
}

void GgufFile::release(const GgufEntry& entry) const { impl_->file.release(data(entry)); }

}  // namespace octavo
