#include "numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "octavo/error.h"

namespace octavo::cli {
namespace {

template <class Number>
Number parse(const std::string& option, const std::string& word, const char* wanted) {
  Number number{};
  const char* end = word.data() + word.size();
  const auto [stop, status] = std::from_chars(word.data(), end, number);
  if (status == std::errc::result_out_of_range && stop == end) throw InvalidArgument(fmt::format("{} {} is out of range; give {}", option, word, wanted));
  if (status != std::errc{} || stop != end) throw InvalidArgument(fmt::format("{} '{}' is not {}", option, word, wanted));
  return number;
}

}  // namespace

int to_int(const std::string& option, const std::string& word) { return parse<int>(option, word, "a whole number"); }

std::uint64_t to_seed(const char* option, const std::string& word) {
  return parse<std::uint64_t>(option, word, "a whole number from 0 to 18446744073709551615");
}

double to_double(const char* option, const std::string& word) { return parse<double>(option, word, "a number"); }

std::vector<float> to_float_list(const char* option, const std::string& words) {
  std::vector<float> values;
  for (std::size_t start = 0;;) {
    const std::size_t comma = words.find(',', start);
    const std::string word = words.substr(start, comma - start);
    if (word.empty() && !words.empty()) {
      throw InvalidArgument(fmt::format("{} '{}' has no number {}; give one number, or numbers separated by single commas", option, words,
                                        start == 0 ? "before the first comma" : fmt::format("behind the comma at place {}", start)));
    }
    values.push_back(parse<float>(option, word, "a number, or numbers separated by commas"));
    if (comma == std::string::npos) return values;
    start = comma + 1;
  }
}

ScheduleEnd to_schedule_end(const char* option, const std::string& word) {
  if (word == "zero") return ScheduleEnd::zero;
  if (word == "official") return ScheduleEnd::official;
  throw InvalidArgument(fmt::format("{} '{}' is unknown; known: zero, official", option, word));
}

NoiseSource to_noise_source(const char* option, const std::string& word) {
  const std::size_t colon = word.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == word.size()) {
    throw InvalidArgument(fmt::format("{} '{}' must be FILE.safetensors:TENSOR, like noise.safetensors:noise", option, word));
  }
  return {.path = word.substr(0, colon), .tensor = word.substr(colon + 1)};
}

LoraSource to_lora_source(const char* option, const std::string& word) {
  constexpr const char* kExample = "FILE or FILE:STRENGTH, like style.safetensors:0.8";
  const std::size_t colon = word.rfind(':');
  const std::string tail = colon == std::string::npos ? "" : word.substr(colon + 1);
  // A colon may stand in a path too: what follows it is then no strength but the rest of a file's name.
  const bool is_path = colon == std::string::npos || tail.find('/') != std::string::npos || tail.ends_with(".safetensors");
  LoraSource source{.path = is_path ? word : word.substr(0, colon)};
  if (source.path.empty()) throw InvalidArgument(fmt::format("{} '{}' has no file; give {}", option, word, kExample));
  if (!is_path) source.strength = parse<double>(fmt::format("{} '{}': strength", option, word).c_str(), tail, "a number like 0.8");
  return source;
}

}  // namespace octavo::cli
