#include "text/caption.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/json.h"
#include "octavo/error.h"

namespace octavo {
namespace {

using Keys = std::vector<std::string_view>;

constexpr std::uint64_t kBoxMax = 1000;
constexpr std::size_t kMaxStyleColors = 16;
constexpr std::size_t kMaxElementColors = 5;

// Rule 2: escapes stand for characters that the model saw literally in training.
bool escapes_all_non_ascii(std::string_view text) {
  bool has_escape = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80) return false;
    if (text[i] != '\\') continue;
    ++i;
    if (i + 4 < text.size() && text[i] == 'u') {
      const std::string digits(text.substr(i + 1, 4));
      has_escape = has_escape || (digits.find_first_not_of("0123456789abcdefABCDEF") == digits.npos && std::stoul(digits, nullptr, 16) >= 0x80);
    }
  }
  return has_escape;
}

bool is_color(const Json& value) {
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  return text.size() == 7 && text[0] == '#' && text.find_first_not_of("0123456789ABCDEF", 1) == text.npos;
}

// Walks the caption and collects what is wrong; `where` is the path to the value in words of the caption.
class Verifier {
 public:
  std::vector<std::string> take() { return std::move(warnings_); }

  void check_root(const Json& root) {
    if (!root.is_object())
      return warn("caption", "is not a JSON object; the model expects {\"high_level_description\": …, \"compositional_deconstruction\": …}");
    check_known("caption", root, {"high_level_description", "style_description", "compositional_deconstruction"});
    if (const Json* description = find(root, "high_level_description"); description != nullptr && !description->is_string())
      warn("high_level_description", "is not a string");
    if (const Json* style = find(root, "style_description")) check_style(*style);
    const Json* composition = find(root, "compositional_deconstruction");
    if (composition == nullptr) return warn("caption", "has no 'compositional_deconstruction'; it is required");
    check_composition(*composition);
  }

 private:
  void warn(std::string_view where, std::string_view what) { warnings_.push_back(fmt::format("{}: {}", where, what)); }

  static const Json* find(const Json& object, std::string_view key) {
    for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) {
      if (name == key) return &value;
    }
    return nullptr;
  }

  void check_known(std::string_view where, const Json& object, const Keys& known) {
    for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) {
      if (std::find(known.begin(), known.end(), name) == known.end())
        warn(where, fmt::format("has the unknown key '{}'; known are {}", excerpt(name), fmt::join(known, ", ")));
    }
  }

  // The keys must be exactly these, in this order. Keys that begin with '?' may be absent.
  void check_order(std::string_view where, const Json& object, const Keys& order) {
    Keys expected, present;
    for (std::string_view key : order) {
      const bool is_optional = key.front() == '?';
      if (is_optional) key.remove_prefix(1);
      if (!is_optional || find(object, key) != nullptr) expected.push_back(key);
    }
    for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) present.emplace_back(name);
    if (present == expected) return;
    for (const std::string_view key : expected) {
      if (find(object, key) == nullptr) return warn(where, fmt::format("has no '{}'; its keys should be {}, in this order", key, fmt::join(expected, ", ")));
    }
    warn(where, fmt::format("has its keys in another order than the model learnt; it should be {}", fmt::join(expected, ", ")));
  }

  void check_style(const Json& style) {
    constexpr std::string_view where = "style_description";
    if (!style.is_object()) return warn(where, "is not an object");
    check_known(where, style, {"aesthetics", "lighting", "photo", "medium", "art_style", "color_palette"});
    const bool is_photo = find(style, "photo") != nullptr;
    if (is_photo == (find(style, "art_style") != nullptr))
      return warn(where, fmt::format("has {} 'photo' and 'art_style'; exactly one is needed", is_photo ? "both" : "neither"));
    if (is_photo) {
      check_order(where, style, {"aesthetics", "lighting", "photo", "medium", "?color_palette"});
    } else {
      check_order(where, style, {"aesthetics", "lighting", "medium", "art_style", "?color_palette"});
    }
    if (const Json* palette = find(style, "color_palette")) check_palette("style_description.color_palette", *palette, kMaxStyleColors);
  }

  void check_composition(const Json& composition) {
    constexpr std::string_view where = "compositional_deconstruction";
    if (!composition.is_object()) return warn(where, "is not an object");
    const Json* background = find(composition, "background");
    if (background == nullptr || !background->is_string()) return warn(where, "has no 'background' that is a string; it is required");
    const Json* elements = find(composition, "elements");
    if (elements == nullptr || !elements->is_array()) return warn(where, "has no 'elements' that is a list; it is required and may be empty");
    if (background > elements) warn(where, "has 'elements' before 'background'; the model learnt 'background' first");  // both lie in one array
    for (std::size_t i = 0; i < elements->size(); ++i) check_element(fmt::format("elements[{}]", i), (*elements)[i]);
  }

  void check_element(const std::string& where, const Json& element) {
    if (!element.is_object()) return warn(where, "is not an object");
    check_known(where, element, {"type", "bbox", "text", "desc", "color_palette"});
    const Json* type = find(element, "type");
    const bool is_text = type != nullptr && *type == "text";
    if (!is_text && (type == nullptr || *type != "obj")) return warn(where, "has no 'type' that is \"obj\" or \"text\"");
    if (is_text) {
      check_order(where, element, {"type", "?bbox", "text", "desc", "?color_palette"});
    } else if (find(element, "text") != nullptr) {
      warn(where, "is an \"obj\" but has 'text'; only elements of type \"text\" may");
    } else {
      check_order(where, element, {"type", "?bbox", "desc", "?color_palette"});
    }
    if (const Json* box = find(element, "bbox")) check_box(where + ".bbox", *box);
    if (const Json* palette = find(element, "color_palette")) check_palette(where + ".color_palette", *palette, kMaxElementColors);
  }

  void check_box(const std::string& where, const Json& box) {
    const bool is_four_integers = box.is_array() && box.size() == 4 && std::all_of(box.begin(), box.end(), [](const Json& v) { return v.is_number_integer(); });
    if (!is_four_integers) return warn(where, "is not a list of four whole numbers [ymin, xmin, ymax, xmax]");
    const auto is_outside = [](const Json& v) { return v.is_number_unsigned() ? v.get<std::uint64_t>() > kBoxMax : v.get<std::int64_t>() < 0; };
    if (std::any_of(box.begin(), box.end(), is_outside)) {
      warn(where, fmt::format("{} leaves the range 0 to {}", excerpt(box.dump()), kBoxMax));
    }
    if (box[0] > box[2]) warn(where, fmt::format("{} has ymin > ymax; the order is [ymin, xmin, ymax, xmax]", excerpt(box.dump())));
    if (box[1] > box[3]) warn(where, fmt::format("{} has xmin > xmax; the order is [ymin, xmin, ymax, xmax]", excerpt(box.dump())));
  }

  void check_palette(const std::string& where, const Json& palette, std::size_t max_colors) {
    if (!palette.is_array()) return warn(where, "is not a list of colours");
    if (palette.size() > max_colors) warn(where, fmt::format("has {} colours; at most {} are allowed", palette.size(), max_colors));
    for (const Json& color : palette) {
      if (!is_color(color)) warn(where, fmt::format("has {}, which is not a colour like \"#1A2B3C\" (capital letters)", excerpt(color.dump(), 40)));
    }
  }

  std::vector<std::string> warnings_{};
};

}  // namespace

bool looks_like_caption(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '{';
}

std::vector<std::string> check_caption(std::string_view text) {
  std::optional<Json> root;
  try {
    root = parse_json(text, "caption");
  } catch (const DataError& error) {
    return {error.what()};
  }
  std::vector<std::string> warnings;
  if (escapes_all_non_ascii(text)) {
    warnings.emplace_back("caption: writes characters as \\u escapes; the model learnt them as they are, so write them literally");
  }
  Verifier verifier;
  verifier.check_root(*root);
  for (std::string& warning : verifier.take()) warnings.push_back(std::move(warning));
  return warnings;
}

std::string compact_caption(std::string_view text) { return parse_json(text, "caption").dump(); }

}  // namespace octavo
