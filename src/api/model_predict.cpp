#include "api/model_predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "octavo/error.h"
#include "ops/attention/attention_choice.h"
#include "ops/op_limit.h"

namespace octavo {
namespace {

constexpr double kTransfer = 0.15;      // how much wider a factor is on another GPU
constexpr double kCountedShare = 0.02;  // of its class: smaller ops do not widen the range
constexpr double kUsableMemory = 0.92;  // of a GPU: a desktop and the context take the rest
// Attention on mma.sync, head_dim 256, share of its tensor cores' limit. Measured on an H200 with each product done so often that it takes the clocks of the
// other GPU (attention_bench): on a GeForce 0.80 to 0.85 in bf16, 0.56 to 0.64 in int8 at 4096 and 4352 rows and 0.68 at 16384; on a large
// chip products are as fast as there: 0.45.
constexpr Range kGeForceAttention{0.70, 0.83, 0.88}, kGeForceInt8Attention{0.45, 0.60, 0.70}, kLargeAttention{0.38, 0.46, 0.60};
constexpr Range kPlainProducts{0.15, 0.30, 0.50};
constexpr Range kTuringProducts{0.25, 0.40, 0.60};  // float16 by way of registers, with the small mma

constexpr std::string_view kThreeParts = "mma.sync, x in three parts";  // as linear_float_cuda.cpp says it

DType dtype_of(const std::string& name) {
  for (const DType dtype : {DType::s8, DType::bf16, DType::f16, DType::f32}) {
    if (name_of(dtype) == name) return dtype;
  }
  throw DataError(fmt::format("prediction: an op multiplies '{}', which is not known", name));
}

bool is_product(const OpRow& row) { return row.macs > 0; }

double limit_seconds(const OpRow& row, const DeviceCaps& caps, DType math) {
  return limit_of(OpWork{.math = math, .macs = row.macs, .bytes = row.bytes}, caps).seconds;
}

double formula_seconds(const OpRow& row, const DeviceCaps& caps, const Int8Estimate& estimate) {
  if (row.op == "linear" && row.math == "s8") return estimate(row, caps);
  return limit_seconds(row, caps, dtype_of(row.math));
}

// At a share of the limit: the best share gives the least time.
Range at_share(double limit, const Range& share) { return {limit / share.high, limit / share.mid, limit / share.low}; }

// Attention that was measured on wgmma, where that is not.
Range mma_attention_seconds(const OpRow& row, const DeviceCaps& gpu) {
  const DType math = dtype_of(row.math);
  const bool is_geforce = macs_per_clock(DType::s8, gpu.sm) >= 4 * macs_per_clock(math, gpu.sm);
  if (settled_attention(AttentionKind::automatic, precision::w8a8, gpu.sm, int(row.k)) != AttentionKind::int8)
    return at_share(limit_seconds(row, gpu, math), is_geforce ? kGeForceAttention : kLargeAttention);
  // Half of the products in int8, half in float16 with float16 sums, twice the rate of float32 sums; before them q, k and v are read and written as codes.
  const double products = row.macs / 2 / macs_per_second(DType::s8, gpu) + row.macs / 2 / (2 * macs_per_second(DType::f16, gpu));
  Range seconds = at_share(products, kGeForceInt8Attention);
  seconds += Range{1, 1, 1} * (2 * row.bytes / bandwidth_of(gpu));
  return seconds;
}

Range seconds_on(const OpRow& row, const std::vector<Calibration>& factors, const DeviceCaps& gpu, const Int8Estimate& estimate) {
  const bool is_float_product = is_product(row) && row.math != "s8";
  if (is_float_product && gpu.sm < 80 && row.math != "f32") {
    // float32 rows beside bf16 weights have no tensor cores there, and go whole instead of in three parts; what is bf16 on both sides becomes float16.
    if (row.kernel != kThreeParts) return at_share(limit_seconds(row, gpu, DType::f16), kTuringProducts);
    OpRow whole = row;
    whole.macs /= 3;
    return at_share(limit_seconds(whole, gpu, DType::f32), kPlainProducts);
  }
  if (row.op == "attention" && row.kernel == "wgmma" && gpu.sm != 90) return mma_attention_seconds(row, gpu);
  const auto found = std::find_if(factors.begin(), factors.end(), [&](const Calibration& each) { return each.name == class_of(row); });
  if (found == factors.end()) return {};
  const double formula = formula_seconds(row, gpu, estimate);
  return {formula * found->factor.low * (1 - kTransfer), formula * found->factor.mid, formula * found->factor.high * (1 + kTransfer)};
}

Range part_seconds(const ModelRun& run, const std::vector<Calibration>& factors, const DeviceCaps& gpu, const Int8Estimate& estimate,
                   const std::function<bool(const OpRow&)>& is_of_part) {
  Range sum;
  for (const OpRow& row : run.rows) {
    if (is_of_part(row)) sum += seconds_on(row, factors, gpu, estimate) * row.count;
  }
  return sum;
}

double link_bytes_per_second(const DeviceCaps& gpu) { return gpu.sm < 80 ? 12e9 : gpu.sm >= 120 ? 48e9 : 24e9; }

double beyond_memory(std::int64_t bytes, const DeviceCaps& gpu) { return std::max(0.0, double(bytes) - kUsableMemory * double(gpu.memory_bytes)); }

// Work and a transfer beside it: the longer of the two at best, one after the other at worst.
Range beside(const Range& work, double transfer) { return {std::max(work.low, transfer), std::max(work.mid, transfer), work.high + transfer}; }

std::string range_text(const Range& seconds) {
  const int digits = seconds.mid < 1 ? 3 : seconds.mid < 10 ? 2 : seconds.mid < 100 ? 1 : 0;
  return fmt::format("{:.{}f} [{:.{}f}–{:.{}f}]", seconds.mid, digits, seconds.low, digits, seconds.high, digits);
}

}  // namespace

Range& Range::operator+=(const Range& other) {
  low += other.low;
  mid += other.mid;
  high += other.high;
  return *this;
}

std::string class_of(const OpRow& row) { return is_product(row) ? fmt::format("{} {}", row.op, row.math) : row.op; }

std::vector<Calibration> calibrate(const ModelRun& run, const Int8Estimate& estimate) {
  struct Sums {
    double measured = 0, formula = 0, of_step = 0;
    std::vector<std::pair<double, double>> kinds{};  // measured time of all, ratio
  };
  std::vector<std::pair<std::string, Sums>> classes;
  for (const OpRow& row : run.rows) {
    const double formula = formula_seconds(row, run.caps, estimate), measured = row.count * row.seconds;
    if (formula <= 0 || row.seconds <= 0) continue;
    const std::string name = class_of(row);
    auto place = std::find_if(classes.begin(), classes.end(), [&](const auto& each) { return each.first == name; });
    if (place == classes.end()) place = classes.insert(classes.end(), {name, {}});
    Sums& sums = place->second;
    sums.measured += measured;
    sums.formula += row.count * formula;
    if (is_of_step(row)) sums.of_step += measured;
    sums.kinds.emplace_back(measured, row.seconds / formula);
  }
  std::vector<Calibration> result;
  for (const auto& [name, sums] : classes) {
    const double mid = sums.measured / sums.formula;
    Calibration calibration{.name = name, .share_of_step = run.step.median > 0 ? sums.of_step / run.step.median : 0, .factor = {mid, mid, mid}};
    for (const auto& [measured, ratio] : sums.kinds) {
      if (measured < kCountedShare * sums.measured) continue;
      ++calibration.kinds;
      calibration.factor.low = std::min(calibration.factor.low, ratio);
      calibration.factor.high = std::max(calibration.factor.high, ratio);
    }
    result.push_back(calibration);
  }
  return result;
}

PredictedRun predict_run(const ModelRun& run, const std::vector<Calibration>& factors, const DeviceCaps& gpu, const Int8Estimate& estimate) {
  const auto part = [&](const auto& is_of_part) { return part_seconds(run, factors, gpu, estimate, is_of_part); };
  const auto named = [&](const char* name) { return part([name](const OpRow& row) { return row.part == name; }); };
  const auto constant = [](double seconds) { return Range{seconds, seconds, seconds}; };
  // What a part took beside its ops stays as long: it is the host's.
  const auto rest = [&](const char* name, double whole) {
    for (const OpRow& row : run.rows) whole -= row.part == name ? row.count * row.seconds : 0;
    return constant(std::max(0.0, whole));
  };

  PredictedRun predicted;
  predicted.step = part([](const OpRow& row) { return is_of_step(row); });
  predicted.step += constant(std::max(0.0, run.gap_share() * run.step.median));
  predicted.streamed_bytes = beyond_memory(run.peak_image_bytes - run.used_before_bytes, gpu);
  predicted.step = beside(predicted.step, predicted.streamed_bytes / link_bytes_per_second(gpu));

  Range encode = named("text encoder");
  encode += rest("text encoder", run.encode.median);
  predicted.image = beside(encode, beyond_memory(run.peak_text_bytes - run.used_before_bytes, gpu) / link_bytes_per_second(gpu));
  predicted.image += constant(run.prepare_seconds);
  predicted.image += predicted.step * run.steps;
  predicted.image += named("vae");
  predicted.image += rest("vae", run.decode.median);
  return predicted;
}

std::string prediction_page(const std::vector<ModelRun>& runs, const std::vector<DeviceCaps>& gpus, const Int8Estimate& estimate) {
  std::string text;
  for (const ModelRun& run : runs) {
    if (run.precision != "w8a8") continue;
    if (text.empty()) {
      text += fmt::format("Measured on the {}: {} of random weights, {}, {} text tokens. How far each kind of op is from its formula there:\n\n", run.caps.name,
                          run.model, run.precision, run.text);
      text += "| size | op | share of the step | measured / formula | least–most |\n|---|---|---|---|---|\n";
    }
    for (const Calibration& each : calibrate(run, estimate)) {
      if (each.share_of_step < 0.001) continue;
      text += fmt::format("| {}² | {} | {:.1f} % | {:.2f} | {:.2f}–{:.2f} of {} |\n", run.size, each.name, 100 * each.share_of_step, each.factor.mid,
                          each.factor.low, each.factor.high, each.kinds);
    }
  }
  if (text.empty()) throw InvalidArgument("prediction: no run in w8a8 among those measured; add --precision w8a8 to 'octavo bench model'");
  text +=
      "\n**Predicted** seconds, with the range in brackets; a weight that does not fit is streamed over PCIe in every step:\n\n| size | GPU | step | image | "
      "streamed |\n|---|---|---|---|---|\n";
  for (const ModelRun& run : runs) {
    if (run.precision != "w8a8") continue;
    text += fmt::format("| {}² | {}, **measured** | {:.3f} | {:.2f}, {} steps | none |\n", run.size, run.caps.name, run.step.median, run.image_seconds(),
                        run.steps);
    for (const DeviceCaps& gpu : gpus) {
      const PredictedRun predicted = predict_run(run, calibrate(run, estimate), gpu, estimate);
      text += fmt::format("| {}² | {} | {} | {} | {} |\n", run.size, gpu.name, range_text(predicted.step), range_text(predicted.image),
                          predicted.streamed_bytes > 0 ? fmt::format("{:.1f} GB", predicted.streamed_bytes * 1e-9) : "none");
    }
  }
  return text;
}

}  // namespace octavo
