#include "io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/files.h"
#include "io/foreign_file.h"
#include "octavo/error.h"

namespace octavo {
namespace {

[[noreturn]] void fail(const std::string& who, std::string_view reason, std::size_t byte) {
  throw DataError(fmt::format("{}: is not JSON ({} at byte {})", who, reason, byte));
}

// What the parser itself does not bound. NUL matters because the parser takes it for the end of the text.
void check_depth_and_nul(std::string_view text, const std::string& who) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0') fail(who, "NUL byte", i);
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) fail(who, fmt::format("nested deeper than {}", kMaxJsonDepth), i);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

// Builds the value itself: ordered_json's own parser looks for each new key among all earlier ones, which takes minutes on a
// vocabulary of 150,000 entries, and lets the last of two equal keys win.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const std::string& who) : who_(who) {}
  Json take() { return std::move(root_); }

  bool null() override { return put(Json(nullptr)); }
  bool boolean(bool value) override { return put(Json(value)); }
  bool number_integer(number_integer_t value) override { return put(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return put(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return put(Json(value)); }
  bool string(string_t& value) override { return put(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    refuse_duplicate_keys(*open_.back());
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // "[json.exception.…] parse error at line 1, column 5: <reason>; last read: '<text>'" - the middle is what a person needs
    std::string_view reason = error.what();
    if (const auto start = reason.find("column "); start != reason.npos) {
      if (const auto colon = reason.find(": ", start); colon != reason.npos) reason.remove_prefix(colon + 2);
    } else if (const auto bracket = reason.find("] "); bracket != reason.npos) {
      reason.remove_prefix(bracket + 2);
    }
    fail(who_, excerpt(reason, 160), position == 0 ? 0 : position - 1);
  }

 private:
  using Members = std::vector<std::pair<const std::string, Json>>;  // what ordered_map is made of

  Json* add(Json&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.get_ref<Json::array_t&>().emplace_back(std::move(value));
    Members& members = parent.get_ref<Json::object_t&>();
    return &members.emplace_back(std::move(key_), std::move(value)).second;
  }
  bool put(Json&& value) {
    add(std::move(value));
    return true;
  }
  // The pointers stay valid: a container grows only while its own last element is not open.
  bool open(Json&& value) {
    open_.push_back(add(std::move(value)));
    return true;
  }
  void refuse_duplicate_keys(const Json& object) const {
    const Members& members = object.get_ref<const Json::object_t&>();
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& [name, value] : members) names.emplace_back(name);
    std::sort(names.begin(), names.end());
    const auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin != names.end()) throw DataError(fmt::format("{}: an object names '{}' twice; remove one of the two", who_, excerpt(*twin)));
  }

  const std::string& who_;
  Json root_{};
  std::vector<Json*> open_{};
  std::string key_{};
};

}  // namespace

Json parse_json(std::string_view text, const std::string& who) {
  if (text.size() > kMaxJsonBytes) throw DataError(fmt::format("{}: has {} bytes of JSON, more than the {} that are read", who, text.size(), kMaxJsonBytes));
  check_depth_and_nul(text, who);
  Builder builder(who);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Json read_json(const std::filesystem::path& path) {
  const std::string who = fmt::format("file '{}'", path.string());
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.empty()) throw DataError(fmt::format("{}: is empty; copy or download it again", who));
  const std::string kind = foreign_kind(file.bytes());
  if (!kind.empty()) throw DataError(fmt::format("{}: is not JSON but {}", who, kind));
  return parse_json(text, who);
}

std::string excerpt(std::string_view text, std::size_t max_bytes) {
  std::size_t length = std::min(text.size(), max_bytes);
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0u) == 0x80u) --length;  // not inside a code point
  std::string shown(text.substr(0, length));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return length < text.size() ? shown + "…" : shown;
}

}  // namespace octavo
