#include "pipeline/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "octavo/error.h"

namespace octavo {
namespace {

constexpr double kFloat = 4;
constexpr double kUnknown = std::numeric_limits<double>::infinity();

std::string human(double bytes) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  return bytes < kGiB ? fmt::format("{:.0f} MiB", bytes / (kGiB / 1024)) : fmt::format("{:.1f} GiB", bytes / kGiB);
}

// The number after `key` in a file of "key value" lines; a file of one bare number has the key "".
std::optional<double> number_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (key.empty()) {
      char* end = nullptr;
      const double value = std::strtod(word.c_str(), &end);
      return *end == 0 ? std::optional(value) : std::nullopt;  // "max": no limit
    }
    double value = 0;
    if (word == key && file >> value) return value;
  }
  return std::nullopt;
}

}  // namespace

double decoder_channels_of(const std::vector<int>& widths) { return 2.0 * widths.front() + widths[std::min<std::size_t>(1, widths.size() - 1)] / 4.0; }

std::vector<MemoryItem> estimate_memory(const MemoryQuestion& q) {
  const double sequence = q.text_tokens + q.image_tokens;
  const double encode = kFloat * q.text_tokens * (q.text_features + 8 * q.text_hidden + 3 * q.text_intermediate);
  const double modulation = kFloat * q.steps * 2 * q.layers * 4 * q.hidden;
  const double sessions = kFloat * (2 * sequence * q.head_dim + q.text_tokens * (q.text_features + q.hidden));
  const double denoise = kFloat * (sequence * (6 * q.hidden + 3 * q.intermediate) + 4 * q.image_tokens * q.channels) + sessions;
  const double decode = kFloat * q.pixels * (q.decoder_channels + 3);
  std::vector<MemoryItem> items{
      {"activations of the text encoder", encode},
      {fmt::format("activations of the denoiser ({:.0f} text and {:.0f} image tokens)", q.text_tokens, q.image_tokens), denoise},
      {fmt::format("activations of the decoder ({:.0f} pixels)", q.pixels), decode},
  };
  const auto largest = std::max_element(items.begin(), items.end(), [](const MemoryItem& a, const MemoryItem& b) { return a.bytes < b.bytes; });
  items = {*largest};
  items.push_back({fmt::format("the modulation rows of {:.0f} steps", q.steps), modulation});
  items.push_back({"pictures", q.batch * q.pixels * 3 + q.pixels * 3 * kFloat});
  if (q.copied_weights_bytes > 0) items.push_back({"converted weights", q.copied_weights_bytes});
  if (q.keeps_dump) items.push_back({"the tensors of --dump", kFloat * q.batch * (3 * q.steps * q.image_tokens * q.channels + 3 * q.pixels)});
  std::stable_sort(items.begin(), items.end(), [](const MemoryItem& a, const MemoryItem& b) { return a.bytes > b.bytes; });
  return items;
}

double available_memory() {
  double available = number_in("/proc/meminfo", "MemAvailable:").value_or(kUnknown / 1024) * 1024;
  const auto limit = number_in("/sys/fs/cgroup/memory.max", "");
  const auto used = number_in("/sys/fs/cgroup/memory.current", "");
  if (limit && used) {
    const double cached = number_in("/sys/fs/cgroup/memory.stat", "file").value_or(0);  // page cache gives way
    available = std::min(available, *limit - std::max(0.0, *used - cached));
  }
  return available;
}

void require_memory(const std::vector<MemoryItem>& items, double available) {
  double total = 0;
  std::string parts;
  for (const MemoryItem& item : items) {
    total += item.bytes;
    if (item.bytes > 0.01 * items.front().bytes) parts += fmt::format("{}{} for {}", parts.empty() ? "" : ", ", human(item.bytes), item.what);
  }
  if (total <= available) return;
  throw OutOfMemory(
      fmt::format("generate: not enough memory: {} wanted ({}), {} available; use a smaller --width and --height, a smaller --batch or fewer --steps",
                  human(total), parts, human(available)));
}

}  // namespace octavo
