// What was measured on one GPU, and its file: readable, versioned JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tune/keys.h"

namespace octavo::tune {

struct Standing {
  std::string id{};    // of the candidate
  double seconds = 0;  // median
};

struct Entry {
  std::string winner{};
  int raster_group = 0;          // the launch parameter that was measured with it
  double seconds = 0;            // its median
  std::int64_t measured_m = 0;   // rows it was measured with, within the bucket
  std::vector<Standing> lost{};  // those that were timed to the end, fastest first
};

class Table {
 public:
  static constexpr int kVersion = 1;
  static constexpr std::size_t kMaxFileBytes = 16u << 20;

  explicit Table(GpuKey gpu) : gpu_(std::move(gpu)) {}

  const GpuKey& gpu() const { return gpu_; }
  const std::map<ShapeKey, Entry>& entries() const { return entries_; }
  const Entry* find(const ShapeKey& shape) const;
  void put(const ShapeKey& shape, Entry entry) { entries_[shape] = std::move(entry); }

  std::string to_json() const;
  // Throws DataError, naming `who`, if the text is no such table, or one of a newer version.
  static Table from_json(std::string_view text, const std::string& who);

 private:
  GpuKey gpu_;
  std::map<ShapeKey, Entry> entries_{};
};

}  // namespace octavo::tune
