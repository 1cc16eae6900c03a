#include "weights/weight_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "io/json.h"
#include "io/safetensors.h"
#include "octavo/error.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kBaseNames{"diffusion_pytorch_model.safetensors", "model.safetensors"};

// What an index file says: the shard of every tensor. Shards lie beside the index, so a name with a path in it is refused.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const Json index = read_json(path);
  const auto weight_map = index.is_object() ? index.find("weight_map") : index.end();
  if (weight_map == index.end() || !weight_map->is_object() || weight_map->empty()) {
    throw DataError(fmt::format("{}: has no 'weight_map' from tensor names to files; it is not an index of safetensors shards", path.string()));
  }
  std::map<std::string, std::string> shards;
  for (const auto& [name, file] : weight_map->items()) {
    const std::string shard = file.is_string() ? file.get<std::string>() : "";
    if (shard.empty() || fs::path(shard).filename() != fs::path(shard)) {
      throw DataError(fmt::format("{}: tensor '{}' is said to be in {}, which is not the name of a file beside the index", path.string(), name, file.dump()));
    }
    shards[name] = shard;
  }
  return shards;
}

// The stored formats that ops read. Quantised checkpoints have their own readers.
bool is_readable(DType dtype) { return is_float(dtype); }

}  // namespace

struct WeightStore::Impl {
  std::string component{};
  std::vector<SafetensorsFile> files{};
  std::map<std::string, std::size_t, std::less<>> file_of{};

  void open_single(const fs::path& path) {
    files.emplace_back(path);
    for (const SafetensorsEntry& entry : files.back().entries()) file_of[entry.name] = 0;
  }

  void open_sharded(const fs::path& index_path) {
    std::map<std::string, std::size_t> opened;
    for (const auto& [name, shard] : read_index(index_path)) {
      if (!opened.contains(shard)) {
        const fs::path path = index_path.parent_path() / shard;
        if (!fs::exists(path)) {
          throw DataError(fmt::format("{}: '{}' is listed in {} but is not there; the download is probably incomplete", component, path.string(),
                                      index_path.filename().string()));
        }
        opened[shard] = files.size();
        files.emplace_back(path);
      }
      const std::size_t file = opened[shard];
      if (files[file].find(name) == nullptr) {
        throw DataError(fmt::format("{}: tensor '{}' is not in '{}' although {} says so; the shards are of different versions", component, name, shard,
                                    index_path.filename().string()));
      }
      file_of[name] = file;
    }
  }

  const SafetensorsEntry* find(std::string_view name) const {
    const auto found = file_of.find(name);
    return found == file_of.end() ? nullptr : files[found->second].find(name);
  }

  const SafetensorsEntry& entry(std::string_view name) const {
    const SafetensorsEntry* found = find(name);
    if (found == nullptr) throw DataError(fmt::format("{}: tensor '{}' is missing; the file is incomplete or of another model", component, name));
    return *found;
  }

  std::string dtype_problem(const SafetensorsEntry& found) const {
    if (found.dtype && is_readable(*found.dtype)) return {};
    return fmt::format("tensor '{}' is stored as {}; weights are read from F32, BF16 and F16", found.name, found.dtype_name);
  }
};

WeightStore::WeightStore(const fs::path& folder, std::string component) : impl_(std::make_unique<Impl>()) {
  impl_->component = std::move(component);
  for (const std::string_view base : kBaseNames) {
    const fs::path single = folder / base;
    const fs::path index = folder / fmt::format("{}.index.json", base);
    if (fs::exists(single)) {
      impl_->open_single(single);
      return;
    }
    if (fs::exists(index)) {
      impl_->open_sharded(index);
      return;
    }
  }
  throw InvalidArgument(
      fmt::format("{}: no weights in '{}'; looked for {}, each also with .index.json", impl_->component, folder.string(), fmt::join(kBaseNames, " and ")));
}

WeightStore::~WeightStore() = default;
WeightStore::WeightStore(WeightStore&&) noexcept = default;

const std::string& WeightStore::component() const { return impl_->component; }

bool WeightStore::has(std::string_view name) const { return impl_->find(name) != nullptr; }

TensorView WeightStore::get(std::string_view name) const {
  const SafetensorsEntry& entry = impl_->entry(name);
  if (const std::string problem = impl_->dtype_problem(entry); !problem.empty()) throw DataError(fmt::format("{}: {}", impl_->component, problem));
  return impl_->files[impl_->file_of.find(name)->second].tensor(name);
}

TensorView WeightStore::get(std::string_view name, const Shape& shape) const {
  const TensorView view = get(name);
  if (view.shape != shape) {
    throw DataError(fmt::format("{}: tensor '{}' is {} but {} is needed; config.json and the weights do not belong together", impl_->component, name,
                                view.shape.text(), shape.text()));
  }
  return view;
}

void WeightStore::release(std::string_view name) const {
  const auto found = impl_->file_of.find(name);
  if (found != impl_->file_of.end()) impl_->files[found->second].release(name);
}

std::vector<std::string> WeightStore::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : impl_->file_of) names.push_back(name);
  return names;
}

std::vector<std::string> WeightStore::check(std::span<const ParamSpec> specs, std::span<const std::string_view> ignored_prefixes) const {
  std::set<std::string_view> asked;
  std::string first;
  int problems = 0;
  for (const ParamSpec& spec : specs) {
    asked.insert(spec.name);
    const SafetensorsEntry* found = impl_->find(spec.name);
    if (found == nullptr && spec.optional) continue;
    std::string problem;
    if (found == nullptr) {
      problem = fmt::format("tensor '{}' {} is missing", spec.name, spec.shape.text());
    } else if (found->shape != spec.shape) {
      problem = fmt::format("tensor '{}' is {} but config.json asks for {}", spec.name, found->shape.text(), spec.shape.text());
    } else {
      problem = impl_->dtype_problem(*found);
    }
    if (problem.empty()) continue;
    if (problems++ == 0) first = problem;
  }
  if (problems > 0) {
    const std::string more = problems > 1 ? fmt::format(" (and {} more like it)", problems - 1) : "";
    throw DataError(fmt::format("{}: {}{}; the weights are incomplete, or config.json belongs to another model", impl_->component, first, more));
  }
  std::vector<std::string> unused;
  for (const auto& [name, file] : impl_->file_of) {
    const auto ignores = [&name = name](std::string_view prefix) { return std::string_view(name).starts_with(prefix); };
    if (!asked.contains(name) && std::none_of(ignored_prefixes.begin(), ignored_prefixes.end(), ignores)) unused.push_back(name);
  }
  return unused;
}

}  // namespace octavo
