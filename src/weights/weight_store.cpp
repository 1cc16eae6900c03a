#include "weights/weight_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "io/json.h"
#include "octavo/error.h"
#include "weights/dialect.h"
#include "weights/llama_names.h"
#include "weights/weight_file.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kBaseNames{"diffusion_pytorch_model.safetensors", "model.safetensors"};
constexpr std::string_view kWeight = ".weight";

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

// What is checked and handed out as a plain tensor.
bool is_plain(const StoredTensor& tensor) { return tensor.type == "F32" || tensor.type == "BF16" || tensor.type == "F16"; }

bool is_weight_file(const fs::path& path) { return path.extension() == ".safetensors" || path.extension() == ".gguf"; }

// Trailing axes of 1 do not change a matrix.
bool same_matrix(const Shape& linear, const Shape& asked) {
  return asked.rank() >= 2 && linear.rank() == 2 && linear[0] == asked[0] && linear.elements() == asked.elements();
}

}  // namespace

struct WeightStore::Impl {
  struct Place {
    const WeightFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };

  std::string component{};
  std::deque<WeightFile> files{};  // places point into them
  std::map<std::string, Place, std::less<>> places{};
  Projections projections{};
  bool has_int8 = false;

  void open(const fs::path& path);
  void open_single(const fs::path& path);
  void open_sharded(const fs::path& index_path);
  void lay_over(const WeightOverlay& overlay);
  void judge_smoothing_of(const Projections& below);
  Projections projections_of_places() const;

  const StoredTensor* find(std::string_view name) const {
    const auto found = places.find(name);
    return found == places.end() ? nullptr : found->second.tensor;
  }
  const StoredLinear* find_linear(std::string_view module) const {
    const auto found = projections.linears.find(module);
    return found == projections.linears.end() ? nullptr : &found->second;
  }
  const StoredLinear* find_linear_of(const ParamSpec& spec) const {
    if (spec.role != ParamRole::linear_weight && spec.role != ParamRole::embedding) return nullptr;
    return spec.name.ends_with(kWeight) ? find_linear(std::string_view(spec.name).substr(0, spec.name.size() - kWeight.size())) : nullptr;
  }

  std::string dtype_problem(const std::string& name, const StoredTensor& found) const {
    if (is_plain(found)) return {};
    return fmt::format("tensor '{}' is stored as {}; weights are read from F32, BF16 and F16", name, found.type);
  }
  std::string problem_of(const ParamSpec& spec, bool& is_unsupported) const;
};

void WeightStore::Impl::open_single(const fs::path& path) {
  files.emplace_back(path);
  const WeightFile& file = files.back();
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string name = file.is_gguf() ? reference_name_of_llama(tensor.name) : tensor.name;
    places[name] = {&file, &tensor};
  }
}

void WeightStore::Impl::open_sharded(const fs::path& index_path) {
  std::map<std::string, std::map<std::string_view, const StoredTensor*>> opened;
  std::map<std::string, const WeightFile*> file_of;
  for (const auto& [name, shard] : read_index(index_path)) {
    if (!opened.contains(shard)) {
      const fs::path path = index_path.parent_path() / shard;
      if (!fs::exists(path)) {
        throw DataError(fmt::format("{}: '{}' is listed in {} but is not there; the download is probably incomplete", component, path.string(),
                                    index_path.filename().string()));
      }
      files.emplace_back(path);
      file_of[shard] = &files.back();
      for (const StoredTensor& tensor : files.back().tensors()) opened[shard][tensor.name] = &tensor;
    }
    const auto tensor = opened[shard].find(name);
    if (tensor == opened[shard].end()) {
      throw DataError(fmt::format("{}: tensor '{}' is not in '{}' although {} says so; the shards are of different versions", component, name, shard,
                                  index_path.filename().string()));
    }
    places[name] = {file_of[shard], tensor->second};
  }
}

void WeightStore::Impl::open(const fs::path& path) {
  if (fs::is_regular_file(path)) return open_single(path);
  for (const std::string_view base : kBaseNames) {
    const fs::path single = path / base;
    const fs::path index = path / fmt::format("{}.index.json", base);
    if (fs::exists(single)) return open_single(single);
    if (fs::exists(index)) return open_sharded(index);
  }
  std::vector<fs::path> others;
  if (fs::is_directory(path)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      if (is_weight_file(entry.path())) others.push_back(entry.path());
    }
  }
  if (others.size() == 1) return open_single(others[0]);
  if (others.empty()) {
    throw InvalidArgument(fmt::format("{}: no weights in '{}'; looked for {}, each also with .index.json, and for one other .safetensors or .gguf file",
                                      component, path.string(), fmt::join(kBaseNames, " and ")));
  }
  std::sort(others.begin(), others.end());
  throw InvalidArgument(fmt::format("{}: '{}' holds {} files with weights ({} and {}{}) and none has a usual name; keep one of them, or name it {}", component,
                                    path.string(), others.size(), others[0].filename().string(), others[1].filename().string(),
                                    others.size() > 2 ? ", ..." : "", kBaseNames[0]));
}

Projections WeightStore::Impl::projections_of_places() const {
  std::vector<StoredTensor> tensors;
  for (const auto& [name, place] : places) {
    tensors.push_back(*place.tensor);
    tensors.back().name = name;
  }
  std::map<std::string, std::string> metadata;
  for (const WeightFile& file : files) {
    if (!file.is_gguf()) metadata.insert(file.metadata().begin(), file.metadata().end());
  }
  return find_projections(tensors, metadata);
}

// A module that the overlay has is taken from it whole, but for a bias that it does not bring.
void WeightStore::Impl::lay_over(const WeightOverlay& overlay) {
  files.emplace_back(overlay.file);
  const WeightFile& file = files.back();
  std::set<std::string, std::less<>> replaced;
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name.starts_with(overlay.prefix)) replaced.emplace(module_of(std::string_view(tensor.name).substr(overlay.prefix.size())));
  }
  if (replaced.empty())
    throw DataError(fmt::format("{}: '{}' has no tensor under '{}'; it is not a file for this model", component, overlay.file.string(), overlay.prefix));
  std::erase_if(places, [&](const auto& place) { return replaced.contains(module_of(place.first)) && !place.first.ends_with(".bias"); });
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name.starts_with(overlay.prefix)) places[tensor.name.substr(overlay.prefix.size())] = {&file, &tensor};
  }
}

// All smoothed layers of a file go the same way. The clearest of up to four is asked, since one layer could be odd.
void WeightStore::Impl::judge_smoothing_of(const Projections& below) {
  constexpr int kAsked = 4;
  constexpr double kSure = 0.8;  // the right way gives 0.99 and more even for 4-bit references, the wrong way much less
  SmoothingVerdict best;
  int smoothed = 0, asked = 0;
  for (const auto& [module, linear] : projections.linears) {
    if (linear.smoothing == Smoothing::none || !linear.problem.empty()) continue;
    ++smoothed;
    const auto reference = below.linears.find(module);
    if (asked >= kAsked || reference == below.linears.end() || !reference->second.problem.empty()) continue;
    const SmoothingVerdict verdict = judge_smoothing(linear, reference->second);
    ++asked;
    if (verdict.correlation > best.correlation) best = verdict;
  }
  if (smoothed == 0) return;
  if (asked == 0) {
    projections.remarks.push_back(
        fmt::format("{} smoothed layers, and no other copy of one to tell which way the smoothing goes; the usual way is taken", smoothed));
    return;
  }
  if (best.correlation < kSure) {
    throw DataError(fmt::format("{}: smoothed layers agree with the base model neither way (correlation {:.2f}); the files are of different models", component,
                                best.correlation));
  }
  for (auto& [module, linear] : projections.linears) {
    if (linear.smoothing != Smoothing::none) linear.smoothing = best.smoothing;
  }
}

WeightStore::WeightStore(const fs::path& path, std::string component, const std::optional<WeightOverlay>& overlay) : impl_(std::make_unique<Impl>()) {
  impl_->component = std::move(component);
  impl_->open(path);
  Projections below;
  if (overlay) {
    below = impl_->projections_of_places();
    impl_->lay_over(*overlay);
  }
  impl_->projections = impl_->projections_of_places();
  impl_->judge_smoothing_of(below);
  for (const auto& [module, linear] : impl_->projections.linears) impl_->has_int8 = impl_->has_int8 || linear.format == LinearFormat::s8;
}

WeightStore::~WeightStore() = default;
WeightStore::WeightStore(WeightStore&&) noexcept = default;

const std::string& WeightStore::component() const { return impl_->component; }

bool WeightStore::has(std::string_view name) const {
  if (impl_->find(name) != nullptr) return true;
  return name.ends_with(kWeight) && impl_->find_linear(name.substr(0, name.size() - kWeight.size())) != nullptr;
}

TensorView WeightStore::get(std::string_view name) const {
  const auto found = impl_->places.find(name);
  if (found == impl_->places.end()) throw DataError(fmt::format("{}: tensor '{}' is missing; the file is incomplete or of another model", component(), name));
  const auto& [file, tensor] = found->second;
  if (const std::string problem = impl_->dtype_problem(found->first, *tensor); !problem.empty()) throw DataError(fmt::format("{}: {}", component(), problem));
  return file->view(tensor->name);
}

TensorView WeightStore::get(std::string_view name, const Shape& shape) const {
  const TensorView view = get(name);
  if (view.shape != shape) {
    throw DataError(fmt::format("{}: tensor '{}' is {} but {} is needed; config.json and the weights do not belong together", impl_->component, name,
                                view.shape.text(), shape.text()));
  }
  return view;
}

const StoredLinear& WeightStore::linear(std::string_view module) const {
  const StoredLinear* found = impl_->find_linear(module);
  if (found == nullptr) throw DataError(fmt::format("{}: tensor '{}{}' is missing; the file is incomplete or of another model", component(), module, kWeight));
  found->require_readable(component());
  return *found;
}

const StoredLinear* WeightStore::find_linear(std::string_view module) const { return impl_->find_linear(module); }

std::vector<std::string> WeightStore::modules() const {
  std::vector<std::string> modules;
  for (const auto& [module, linear] : impl_->projections.linears) modules.push_back(module);
  return modules;
}

const std::vector<std::string>& WeightStore::companions() const { return impl_->projections.companions; }

std::string WeightStore::identity() const {
  std::string text;
  for (const WeightFile& file : impl_->files) {
    std::error_code ignored;
    const auto time = fs::last_write_time(file.path(), ignored).time_since_epoch().count();
    text += fmt::format("{} {} {}\n", file.path().filename().string(), fs::file_size(file.path(), ignored), time);
  }
  return text;
}

bool WeightStore::has_int8() const { return impl_->has_int8; }

bool WeightStore::is_random() const {
  return std::any_of(impl_->files.begin(), impl_->files.end(), [](const WeightFile& file) { return file.metadata().contains(kRandomWeightsKey); });
}

std::string WeightStore::recipe() const {
  for (const WeightFile& file : impl_->files) {
    if (const auto found = file.metadata().find("octavo.recipe"); found != file.metadata().end()) return found->second;
  }
  return {};
}

bool WeightStore::has_folded_smoothing() const { return recipe().find("smoothed with alpha") != std::string::npos; }

void refuse_random(const WeightStore& store) {
  throw DataError(
      fmt::format("{}: its matrices are holes that stand for random numbers ({} in the file's metadata): a model that 'octavo bench model' made for "
                  "itself and that draws nothing; give a real model",
                  store.component(), kRandomWeightsKey));
}

void WeightStore::release(std::string_view name) const {
  const auto give_up = [](const Impl::Place& place) { place.file->release(place.tensor->name); };
  const std::string_view module = name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : std::string_view{};
  if (module.empty() || impl_->find_linear(module) == nullptr) {
    if (const auto found = impl_->places.find(name); found != impl_->places.end()) give_up(found->second);
    return;
  }
  for (auto place = impl_->places.lower_bound(module); place != impl_->places.end() && place->first.starts_with(module); ++place) {
    if (module_of(place->first) == module && !place->first.ends_with(".bias")) give_up(place->second);
  }
}

std::vector<std::string> WeightStore::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : impl_->places) names.push_back(name);
  return names;
}

const std::vector<std::string>& WeightStore::remarks() const { return impl_->projections.remarks; }

// Empty if the parameter is there as asked.
std::string WeightStore::Impl::problem_of(const ParamSpec& spec, bool& is_unsupported) const {
  if (const StoredLinear* linear = find_linear_of(spec)) {
    is_unsupported = linear->is_unsupported;
    if (!linear->problem.empty()) return linear->problem;
    if (!same_matrix(linear->shape, spec.shape))
      return fmt::format("tensor '{}' is {} but config.json asks for {}", spec.name, linear->shape.text(), spec.shape.text());
    return {};
  }
  is_unsupported = false;
  const StoredTensor* found = find(spec.name);
  if (found == nullptr) return spec.optional ? "" : fmt::format("tensor '{}' {} is missing", spec.name, spec.shape.text());
  if (found->shape != spec.shape) return fmt::format("tensor '{}' is {} but config.json asks for {}", spec.name, found->shape.text(), spec.shape.text());
  return dtype_problem(spec.name, *found);
}

std::vector<std::string> WeightStore::check(std::span<const ParamSpec> specs, std::span<const std::string_view> ignored_prefixes) const {
  std::set<std::string, std::less<>> asked(impl_->projections.companions.begin(), impl_->projections.companions.end());
  std::string first;
  bool first_is_unsupported = false;
  int problems = 0;
  for (const ParamSpec& spec : specs) {
    asked.insert(spec.name);
    bool is_unsupported = false;
    const std::string problem = impl_->problem_of(spec, is_unsupported);
    if (problem.empty()) continue;
    if (problems++ == 0) {
      first = problem;
      first_is_unsupported = is_unsupported;
    }
  }
  if (problems > 0) {
    const std::string more = problems > 1 ? fmt::format(" (and {} more like it)", problems - 1) : "";
    if (first_is_unsupported) throw Unsupported(fmt::format("{}: {}{}", impl_->component, first, more));
    throw DataError(fmt::format("{}: {}{}; the weights are incomplete, or config.json belongs to another model", impl_->component, first, more));
  }
  std::vector<std::string> unused;
  for (const auto& [name, place] : impl_->places) {
    const auto ignores = [&tensor = name](std::string_view prefix) { return std::string_view(tensor).starts_with(prefix); };
    if (!asked.contains(name) && std::none_of(ignored_prefixes.begin(), ignored_prefixes.end(), ignores)) unused.push_back(name);
  }
  return unused;
}

}  // namespace octavo
