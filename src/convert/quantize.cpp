#include "convert/quantize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/checked_math.h"
#include "base/content_hash.h"
#include "convert/output_error.h"
#include "convert/resumable_file.h"
#include "convert/smoothing.h"
#include "io/json.h"
#include "models/quantization_policy.h"
#include "octavo/error.h"
#include "octavo/version.h"
#include "quant/quantize.h"
#include "weights/weight_store.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRowsPerTask = 32;
constexpr std::int64_t kDataAlignment = 64;
constexpr std::string_view kWeight = ".weight";
constexpr std::size_t kHashDigits = 16;
constexpr std::string_view kWorstOutput = "worst output";

enum class Way : std::uint8_t { copy, to_bf16, quantize, keep_int8 };

// One unit of work: a matrix with its companions, or a tensor alone.
struct Job {
  std::string module{};  // or the tensor's name
  const StoredLinear* linear = nullptr;
  TensorView plain{};  // of a tensor that is copied
  Way way = Way::copy;
  int group = 0;
  std::string reason{};  // why it is kept
};

struct OutputTensor {
  std::string name{};
  std::string dtype{};
  std::vector<std::int64_t> shape{};
  std::uint64_t bytes = 0;
  int width = 1;             // bytes of one number: the widest come first, so that everything is aligned
  std::uint64_t offset = 0;  // in the file
};

std::string marker_text(int group) {
  std::string text =
      group == 0 ? R"({"format": "int8_tensorwise"})" : fmt::format(R"({{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": {}}})", group);
  text.resize(std::size_t(round_up(std::int64_t(text.size()), 8)), ' ');  // white space behind JSON is allowed, and the next tensor stays aligned
  return text;
}

// What holds no layers would become a file that nobody can use.
void require_model(const std::vector<std::string>& names, const fs::path& in) {
  if (names.empty()) throw InvalidArgument(fmt::format("quantize: '{}' holds no tensor; give a file with a model's weights", in.string()));
  for (const std::string& name : names) {
    for (const std::string_view part : {".lora_A.", ".lora_B.", ".lora_down.", ".lora_up."}) {
      if (name.find(part) == std::string::npos) continue;
      throw InvalidArgument(
          fmt::format("quantize: '{}' is a LoRA ('{}'); quantise the model that it is for, and give the LoRA to generate --lora", in.string(), name));
    }
  }
}

bool is_embedding(std::string_view module) { return module.substr(module.rfind('.') + 1).starts_with("embed"); }

class Converter {
 public:
  Converter(const fs::path& in, const QuantizeRecipe& recipe, ThreadPool& pool, Observer& observer)
      : store_(in, "quantize"), recipe_(recipe), pool_(pool), observer_(observer) {
    require_model(store_.names(), in);
    if (store_.is_random()) refuse_random(store_);
    plan_jobs();
    if (recipe.smooth > 0) smooth_jobs();
    plan_layout();
    if (recipe.protects_worst) {
      protect_worst();
      plan_layout();
    }
  }

  QuantizeReport run(const fs::path& out);

 private:
  void plan_jobs();
  void smooth_jobs();
  void protect_worst();
  void plan_layout();
  void add_output(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape, int width);
  std::optional<std::string> reason_to_keep(const std::string& module) const;
  std::string header(const std::string& source_hash) const;
  const OutputTensor& output(const std::string& name) const { return outputs_[index_.at(name)]; }
  void write(ResumableFile& file, const std::string& name, const void* data) const {
    const OutputTensor& tensor = output(name);
    file.write_at(tensor.offset, {static_cast<const std::byte*>(data), std::size_t(tensor.bytes)});
  }
  template <class Take>
  void quantize_rows(const Job& job, Take take, QuantizedLayer& layer) const;
  const InputStatistics* input_of(const Job& job) const;
  double error_as_int8(Job job) const;
  QuantizedLayer run_job(ResumableFile& file, const Job& job, ContentHash& hash) const;
  void quantize_layer(ResumableFile& file, const Job& job, QuantizedLayer& layer) const;
  void copy_layer(ResumableFile& file, const Job& job) const;
  void write_all(ResumableFile& file, std::uint64_t length, QuantizeReport& report) const;
  void warn_about_patterns(std::vector<std::string>& remarks) const;

  WeightStore store_;
  const QuantizeRecipe& recipe_;
  ThreadPool& pool_;
  Observer& observer_;
  std::vector<Job> jobs_{};
  SmoothingPlan smoothing_{};
  std::string protection_{};        // what protect_worst() found, in one line
  std::vector<Tensor> smoothed_{};  // vectors whose place in the file their jobs' `plain` takes
  std::vector<OutputTensor> outputs_{};
  std::map<std::string, std::size_t> index_{};
  std::uint64_t header_bytes_ = 0, file_bytes_ = 0;
};

std::optional<std::string> Converter::reason_to_keep(const std::string& module) const {
  if (is_embedding(module)) return "an embedding";
  for (const std::string& pattern : recipe_.protect) {
    if (matches(pattern, module)) return "as asked";
  }
  if (recipe_.protects_sensitive) {
    for (const std::string_view sensitive : models::sensitive_modules()) {
      if (matches(fmt::format("*{}*", sensitive), module)) return "sensitive";
    }
  }
  return {};
}

void Converter::plan_jobs() {
  std::map<std::string, Job> by_name;  // sorted: the order of work does not depend on the file
  std::set<std::string_view> companions(store_.companions().begin(), store_.companions().end());
  for (const std::string& name : store_.names()) {
    if (companions.contains(name)) continue;
    const StoredLinear* linear = name.ends_with(kWeight) ? store_.find_linear(std::string_view(name).substr(0, name.size() - kWeight.size())) : nullptr;
    if (linear != nullptr && (!linear->problem.empty() || linear->format != LinearFormat::plain || store_.get(name).shape.rank() == 2)) continue;  // below
    by_name[name] = {.module = name, .plain = store_.get(name)};
  }
  for (const std::string& module : store_.modules()) {
    const StoredLinear& linear = store_.linear(module);
    if (linear.format == LinearFormat::plain && store_.get(module + std::string(kWeight)).shape.rank() != 2) continue;
    Job job{.module = module, .linear = &linear};
    if (linear.format == LinearFormat::s8) {
      if (linear.smoothing != Smoothing::none) {
        throw Unsupported(fmt::format(
            "quantize: linear '{}' is smoothed int8; the format that is written has no place for a smoothing vector. Start from the unquantised model",
            module));
      }
      job.way = Way::keep_int8;
      job.group = linear.rotation_group;
    } else if (const auto reason = reason_to_keep(module)) {
      job.way = linear.format == LinearFormat::plain ? Way::copy : Way::to_bf16;
      job.reason = *reason;
      if (job.way == Way::copy) job.plain = store_.get(module + std::string(kWeight));
    } else {
      job.way = Way::quantize;
      job.group = rotation_group_for(linear.in_features(), recipe_.group);
    }
    by_name[module] = job;
  }
  for (auto& [name, job] : by_name) jobs_.push_back(std::move(job));
}

void Converter::smooth_jobs() {
  std::map<std::string_view, Job*> by_name;
  for (Job& job : jobs_) by_name[job.module] = &job;
  smoothing_ = plan_smoothing(store_, *recipe_.activations, recipe_.smooth, [&](const std::string& module) {
    const auto found = by_name.find(module);
    return found != by_name.end() && found->second->way == Way::quantize;
  });
  for (const auto& [name, divisor] : smoothing_.vectors) {
    Job& job = *by_name.at(name);
    smoothed_.push_back(to_float_tensor(job.plain));
    for (std::size_t k = 0; k < divisor.size(); ++k) smoothed_.back().as<float>()[k] /= divisor[k];
    job.plain = smoothed_.back();  // float32 now: bf16 could not carry the quotient
  }
}

void Converter::add_output(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape, int width) {
  std::uint64_t bytes = std::uint64_t(width);
  for (const std::int64_t extent : shape) bytes *= std::uint64_t(extent);
  outputs_.push_back({name, dtype, std::move(shape), bytes, width, 0});
}

void Converter::plan_layout() {
  outputs_.clear();
  index_.clear();
  header_bytes_ = 0;
  const auto shape_of = [](const Shape& shape) {
    std::vector<std::int64_t> extents;
    for (int axis = 0; axis < shape.rank(); ++axis) extents.push_back(shape[axis]);
    return extents;
  };
  const auto float_name = [](DType dtype) { return dtype == DType::f32 ? "F32" : dtype == DType::bf16 ? "BF16" : "F16"; };
  for (const Job& job : jobs_) {
    const std::string weight = job.linear == nullptr ? job.module : job.module + std::string(kWeight);
    if (job.way == Way::copy) {
      add_output(weight, float_name(job.plain.dtype), shape_of(job.plain.shape), int(bytes_of(job.plain.dtype)));
    } else if (job.way == Way::to_bf16) {
      add_output(weight, "BF16", shape_of(job.linear->shape), 2);
    } else {
      add_output(weight, "I8", shape_of(job.linear->shape), 1);
      add_output(job.module + ".weight_scale", "F32", {job.linear->out_features(), 1}, 4);
      add_output(job.module + ".comfy_quant", "U8", {std::int64_t(marker_text(job.group).size())}, 1);
    }
  }
  std::stable_sort(outputs_.begin(), outputs_.end(), [](const OutputTensor& a, const OutputTensor& b) { return a.width > b.width; });
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].offset = offset;  // from the start of the data, until the header's length is known
    offset += outputs_[i].bytes;
    index_[outputs_[i].name] = i;
  }
  header_bytes_ = 8 + header(std::string(kHashDigits, '0')).size();
  file_bytes_ = header_bytes_ + offset;
  for (OutputTensor& tensor : outputs_) tensor.offset += header_bytes_;
}

std::string Converter::header(const std::string& source_hash) const {
  Json layers = Json::object();
  for (const Job& job : jobs_) {
    if (job.way != Way::quantize && job.way != Way::keep_int8) continue;
    Json& layer = layers[job.module] = {{"format", "int8_tensorwise"}};
    if (job.group > 0) layer.update({{"convrot", true}, {"convrot_groupsize", job.group}});
  }
  Json metadata = {{"format", "pt"},
                   {"_quantization_metadata", Json{{"format_version", "1.0"}, {"layers", layers}}.dump()},
                   {"octavo.recipe", recipe_.text()},
                   {"octavo.source_hash", source_hash},
                   {"octavo.version", version()}};
  Json all = {{"__metadata__", metadata}};
  for (const OutputTensor& tensor : outputs_) {
    const std::uint64_t begin = tensor.offset - header_bytes_;  // header_bytes_ is 0 while it is being measured
    all[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, begin + tensor.bytes}}};
  }
  std::string text = all.dump();
  text.resize(std::size_t(round_up(8 + std::int64_t(text.size()), kDataAlignment) - 8), ' ');
  return text;
}

// What the layer read in calibration; null if it was not seen.
const InputStatistics* Converter::input_of(const Job& job) const {
  if (recipe_.activations == nullptr) return nullptr;
  const auto found = recipe_.activations->find(job.module);
  return found == recipe_.activations->end() || found->second.columns() != job.linear->in_features() ? nullptr : &found->second;
}

// Hands every row's codes and scale to take(n, codes, scale), from several threads, and says what they cost. The weight's error is measured where the
// codes live: a rotation changes no length.
template <class Take>
void Converter::quantize_rows(const Job& job, Take take, QuantizedLayer& layer) const {
  const StoredLinear& linear = *job.linear;
  const std::int64_t rows = linear.out_features(), columns = linear.in_features(), tasks = ceil_div(rows, kRowsPerTask);
  const InputStatistics* input = input_of(job);
  const OutputProbe probe(input != nullptr ? *input : InputStatistics{}, smoothing_.column_factors(job.module), input != nullptr ? job.group : 0);
  struct Sums {
    double error = 0, norm = 0, largest = 0;
    OutputErrorSums output{};
  };
  std::vector<Sums> sums(static_cast<std::size_t>(tasks));
  pool_.for_each(tasks, [&](std::int64_t task) {
    std::vector<float> w(static_cast<std::size_t>(columns));
    std::vector<std::int8_t> q(w.size());
    Sums& sum = sums[std::size_t(task)];
    for (std::int64_t n = task * kRowsPerTask; n < std::min(rows, (task + 1) * kRowsPerTask); ++n) {
      decode_rows(linear, n, 1, w.data());
      smoothing_.apply(job.module, n, w);
      for (const float x : w) sum.largest = std::max(sum.largest, double(std::fabs(x)));
      if (job.group > 0) rotate_row(w.data(), columns, job.group);
      const float scale = quantize_weight_row(w.data(), columns, q.data());
      double row_error = 0, row_norm = 0;
      for (std::int64_t k = 0; k < columns; ++k) {
        const float difference = w[std::size_t(k)] - scale * float(q[std::size_t(k)]);
        row_error += double(difference) * difference;
        row_norm += double(w[std::size_t(k)]) * w[std::size_t(k)];
      }
      sum.error += row_error;
      sum.norm += row_norm;
      if (!probe.is_empty()) sum.output += probe.channel(w.data(), q.data(), scale, double(smoothing_.row_divisor(job.module, n)));
      take(n, q.data(), scale);
    }
  });
  Sums total;
  for (const Sums& sum : sums) {
    total.error += sum.error;
    total.norm += sum.norm;
    total.largest = std::max(total.largest, sum.largest);
    total.output += sum.output;
  }
  if (!std::isfinite(total.error) || !std::isfinite(total.norm)) {
    throw DataError(fmt::format("quantize: linear '{}' holds a number that is not finite; the source is damaged", job.module));
  }
  layer.relative_error = total.norm > 0 ? std::sqrt(total.error / total.norm) : 0;
  layer.outlier_ratio = total.norm > 0 ? total.largest / std::sqrt(total.norm / double(rows * columns)) : 0;
  if (!probe.is_empty()) layer.output_error = total.output.relative();
}

// Of a layer that is kept: what it was spared.
double Converter::error_as_int8(Job job) const {
  job.group = rotation_group_for(job.linear->in_features(), recipe_.group);
  QuantizedLayer layer;
  quantize_rows(job, [](std::int64_t, const std::int8_t*, float) {}, layer);
  return layer.output_error;
}

void Converter::quantize_layer(ResumableFile& file, const Job& job, QuantizedLayer& layer) const {
  const std::int64_t rows = job.linear->out_features(), columns = job.linear->in_features();
  std::vector<std::int8_t> codes(std::size_t(rows * columns));
  std::vector<float> scales(static_cast<std::size_t>(rows));
  quantize_rows(
      job,
      [&](std::int64_t n, const std::int8_t* q, float scale) {
        std::copy_n(q, columns, codes.begin() + n * columns);
        scales[std::size_t(n)] = scale;
      },
      layer);
  write(file, job.module + std::string(kWeight), codes.data());
  write(file, job.module + ".weight_scale", scales.data());
  write(file, job.module + ".comfy_quant", marker_text(job.group).data());
}

// Every layer that was seen in calibration is quantised once without being written; then, worst first, those whose second byte per weight still fits
// the budget stay in bf16. They keep the smoothing, which they share with their neighbours, folded into them.
void Converter::protect_worst() {
  struct Candidate {
    double error = 0;
    Job* job = nullptr;
    std::uint64_t extra_bytes = 0;
  };
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    Job& job = jobs_[i];
    if (observer_.cancelled()) throw Cancelled("quantize: stopped as asked, while measuring the layers");
    observer_.on_progress("measure", 0, int(i), int(jobs_.size()));
    if (job.way != Way::quantize || input_of(job) == nullptr) continue;
    QuantizedLayer measured;
    quantize_rows(job, [](std::int64_t, const std::int8_t*, float) {}, measured);
    store_.release(job.module + std::string(kWeight));
    const std::uint64_t weights = output(job.module + std::string(kWeight)).bytes;
    const std::uint64_t saved = output(job.module + ".weight_scale").bytes + output(job.module + ".comfy_quant").bytes;
    candidates.push_back({measured.output_error, &job, weights - std::min(weights, saved)});
  }
  observer_.on_progress("measure", 0, int(jobs_.size()), int(jobs_.size()));
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.error > b.error; });
  const double allowed = recipe_.budget * double(file_bytes_);
  std::uint64_t spent = 0;
  std::vector<std::string> kept;
  const Candidate* worst_left = nullptr;
  for (const Candidate& candidate : candidates) {
    Job& job = *candidate.job;
    if (double(spent + candidate.extra_bytes) > allowed) {
      if (worst_left == nullptr) worst_left = &candidate;
      continue;
    }
    spent += candidate.extra_bytes;
    const bool is_smoothed = smoothing_.column_factors(job.module) != nullptr || smoothing_.rows.contains(job.module);
    const bool is_bf16 = job.linear->format == LinearFormat::plain && bytes_of(job.linear->dtype) == 2;
    job.way = is_bf16 && !is_smoothed ? Way::copy : Way::to_bf16;
    if (job.way == Way::copy) job.plain = store_.get(job.module + std::string(kWeight));
    job.group = 0;
    job.reason = kWorstOutput;
    kept.push_back(fmt::format("{} {:.2f} %", job.module, 100 * candidate.error));
  }
  protection_ =
      fmt::format("--protect auto: {} of {} measured layers kept in bf16, {:+.2f} % bytes of {:.4g} % allowed{}{}{}", kept.size(), candidates.size(),
                  100 * double(spent) / double(std::max<std::uint64_t>(file_bytes_, 1)), 100 * recipe_.budget, kept.empty() ? "" : ": ", fmt::join(kept, ", "),
                  worst_left != nullptr ? fmt::format("; worst of the others {} {:.2f} %", worst_left->job->module, 100 * worst_left->error) : "");
}

void Converter::copy_layer(ResumableFile& file, const Job& job) const {
  const std::string weight = job.linear == nullptr ? job.module : job.module + std::string(kWeight);
  if (job.way == Way::copy) return write(file, weight, job.plain.data);
  const StoredLinear& linear = *job.linear;
  const std::int64_t rows = linear.out_features(), columns = linear.in_features();
  if (job.way == Way::keep_int8) {
    std::vector<float> scales;
    for (std::int64_t n = 0; n < rows; ++n) scales.push_back(linear.row_scale(n));
    write(file, weight, linear.codes);
    write(file, job.module + ".weight_scale", scales.data());
    return write(file, job.module + ".comfy_quant", marker_text(job.group).data());
  }
  const bool smoothing_applies = job.reason == kWorstOutput;  // other kept layers are no part of the smoothing
  std::vector<bf16> stored(std::size_t(rows * columns));
  pool_.for_each(ceil_div(rows, kRowsPerTask), [&](std::int64_t task) {
    std::vector<float> w(static_cast<std::size_t>(columns));
    for (std::int64_t n = task * kRowsPerTask; n < std::min(rows, (task + 1) * kRowsPerTask); ++n) {
      decode_rows(linear, n, 1, w.data());
      if (smoothing_applies) smoothing_.apply(job.module, n, w);
      store_from_float(w.data(), columns, DType::bf16, stored.data() + n * columns);
    }
  });
  write(file, weight, stored.data());
}

QuantizedLayer Converter::run_job(ResumableFile& file, const Job& job, ContentHash& hash) const {
  QuantizedLayer layer{.module = job.module};
  hash.add(job.module);
  if (job.linear == nullptr) {
    hash.add(static_cast<const std::byte*>(job.plain.data), job.plain.bytes());
    copy_layer(file, job);
    store_.release(job.module);
    return layer;
  }
  const StoredLinear& linear = *job.linear;
  hash.add(linear.codes, std::size_t(linear.code_bytes()));
  layer.shape = linear.shape;
  layer.before = describe(linear);
  layer.bytes_before = linear.bytes;
  layer.bytes_after = std::int64_t(output(job.module + std::string(kWeight)).bytes);
  layer.rotation_group = job.group;
  layer.is_quantized = job.way == Way::quantize || job.way == Way::keep_int8;
  if (job.way == Way::quantize) {
    layer.after = job.group > 0 ? fmt::format("int8, rotated by {}", job.group) : "int8";
    quantize_layer(file, job, layer);
  } else {
    if (job.way != Way::keep_int8 && input_of(job) != nullptr) layer.output_error = error_as_int8(job);
    layer.after = job.way == Way::keep_int8 ? "int8 as it was" : fmt::format("kept: {}", job.reason);
    copy_layer(file, job);
  }
  if (layer.is_quantized) layer.bytes_after += std::int64_t(output(job.module + ".weight_scale").bytes + output(job.module + ".comfy_quant").bytes);
  store_.release(job.module + std::string(kWeight));
  return layer;
}

// A finished layer in the journal, so that a resumed run still has the whole report.
std::string note_of(const QuantizedLayer& layer, const std::string& hash) {
  return Json{{"hash", hash},
              {"shape", {layer.shape.rank() == 2 ? layer.shape[0] : 0, layer.shape.rank() == 2 ? layer.shape[1] : 0}},
              {"before", layer.before},
              {"after", layer.after},
              {"is_quantized", layer.is_quantized},
              {"group", layer.rotation_group},
              {"error", layer.relative_error},
              {"outlier", layer.outlier_ratio},
              {"output_error", layer.output_error},
              {"bytes", {layer.bytes_before, layer.bytes_after}}}
      .dump();
}

QuantizedLayer layer_of(const std::string& module, const std::string& note, std::string& hash) {
  const Json json = parse_json(note, "journal");
  hash = json.at("hash").get<std::string>();
  return {.module = module,
          .shape = {json.at("shape")[0].get<std::int64_t>(), json.at("shape")[1].get<std::int64_t>()},
          .before = json.at("before").get<std::string>(),
          .after = json.at("after").get<std::string>(),
          .is_quantized = json.at("is_quantized").get<bool>(),
          .rotation_group = json.at("group").get<int>(),
          .relative_error = json.at("error").get<double>(),
          .outlier_ratio = json.at("outlier").get<double>(),
          .output_error = json.value("output_error", -1.0),
          .bytes_before = json.at("bytes")[0].get<std::int64_t>(),
          .bytes_after = json.at("bytes")[1].get<std::int64_t>()};
}

void Converter::warn_about_patterns(std::vector<std::string>& remarks) const {
  const std::vector<std::string> modules = store_.modules();
  for (const std::string& pattern : recipe_.protect) {
    if (std::any_of(modules.begin(), modules.end(), [&](const std::string& module) { return matches(pattern, module); })) continue;
    remarks.push_back(fmt::format("--protect '{}' matches no layer; near: {}", pattern, fmt::join(nearest_names(pattern, modules, 3), ", ")));
  }
}

QuantizeReport Converter::run(const fs::path& out) {
  QuantizeReport report{.recipe = recipe_.text(), .remarks = store_.remarks(), .bytes_after = std::int64_t(file_bytes_)};
  warn_about_patterns(report.remarks);
  if (recipe_.smooth > 0) {
    report.remarks.push_back(fmt::format(
        "smoothing was folded in {} places{}", smoothing_.sites,
        smoothing_.skipped_sites > 0 ? fmt::format("; {} more have a layer that is not quantised or was not seen in calibration", smoothing_.skipped_sites)
                                     : ""));
  }
  if (!protection_.empty()) report.remarks.push_back(protection_);
  for (const std::string& remark : report.remarks) observer_.on_advisory(remark);
  const std::string blank_header = header(std::string(kHashDigits, '0'));
  ContentHash plan;
  plan.add(blank_header);
  plan.add(store_.identity());
  for (const auto& [module, s] : smoothing_.columns) plan.add(reinterpret_cast<const std::byte*>(s.data()), s.size() * sizeof(float));
  if (recipe_.activations != nullptr) {  // the journal's errors were measured on these rows
    for (const auto& [module, input] : *recipe_.activations)
      plan.add(reinterpret_cast<const std::byte*>(input.sample.data()), input.sample.size() * sizeof(float));
  }
  ResumableFile file(out, file_bytes_, plan.text());
  if (!file.remark().empty()) {
    report.remarks.push_back(file.remark());
    observer_.on_advisory(file.remark());
  }
  try {
    write_all(file, blank_header.size(), report);
  } catch (const Cancelled&) {
    throw;  // its parts stay: the same command goes on from them
  } catch (...) {
    file.abandon();
    throw;
  }
  return report;
}

// Every job that an earlier run has not finished, then the header with the source's hash, then the name.
void Converter::write_all(ResumableFile& file, std::uint64_t length, QuantizeReport& report) const {
  const std::string blank_header = header(std::string(kHashDigits, '0'));
  file.write_at(0, {reinterpret_cast<const std::byte*>(&length), sizeof(length)});
  file.write_at(sizeof(length), std::as_bytes(std::span(blank_header)));

  ContentHash source;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (observer_.cancelled()) throw Cancelled("quantize: stopped as asked; the same command goes on where it stopped");
    observer_.on_progress("quantise", 0, int(i), int(jobs_.size()));
    const Job& job = jobs_[i];
    QuantizedLayer layer;
    std::string hash;
    if (const auto known = file.finished().find(job.module); known != file.finished().end()) {
      layer = layer_of(job.module, known->second, hash);
      report.resumed_layers += job.linear != nullptr ? 1 : 0;
    } else {
      ContentHash own;
      file.begin_part();
      layer = run_job(file, job, own);
      hash = own.text();
      // A journal entry costs two waits for the disk: small tensors are cheaper to do again.
      if (job.linear != nullptr) file.finish_part(job.module, note_of(layer, hash));
    }
    source.add(hash);
    if (job.linear == nullptr) report.bytes_before += std::int64_t(job.plain.bytes());
    if (job.linear == nullptr) continue;
    report.bytes_before += layer.bytes_before;
    report.layers.push_back(std::move(layer));
  }
  report.source_hash = source.text();
  const std::string final_header = header(report.source_hash);
  file.write_at(sizeof(length), std::as_bytes(std::span(final_header)));
  file.commit();
  observer_.on_progress("quantise", 0, int(jobs_.size()), int(jobs_.size()));
}

}  // namespace

double snr_db(double relative_error) { return relative_error > 0 ? -20 * std::log10(relative_error) : 999; }

QuantizeReport quantize_checkpoint(const fs::path& in, const fs::path& out, const QuantizeRecipe& recipe, ThreadPool& pool, Observer& observer) {
  recipe.validate();
  if ((recipe.smooth > 0 || recipe.protects_worst) && recipe.activations == nullptr) {
    throw InvalidArgument("quantize: smoothing and the search for the worst layers need activations, and there was no calibration");
  }
  std::error_code ignored;
  const fs::path in_file = fs::is_directory(in, ignored) ? in / out.filename() : in;
  if (fs::exists(out, ignored) && fs::exists(in_file, ignored) && fs::equivalent(in_file, out, ignored)) {
    throw InvalidArgument(fmt::format("quantize: input and output are the same file '{}'; give another name for the output", out.string()));
  }
  return Converter(in, recipe, pool, observer).run(out);
}

}  // namespace octavo
