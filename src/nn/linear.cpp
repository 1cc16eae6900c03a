#include "nn/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "base/checked_math.h"
#include "nn/activation_observer.h"
#include "nn/placement.h"
#include "nn/rows.h"
#include "octavo/error.h"
#include "ops/quantize/dequantize_rows.h"
#include "ops/quantize/quantize_rows.h"
#include "ops/random_fill/random_fill.h"
#include "quant/formats/e4m3.h"

namespace octavo::nn {
namespace {

// Rows that one task converts at load: at 4 608 columns a task reads about 300 KB, long enough to hide handing it out.
constexpr std::int64_t kRowsPerTask = 32;
// A panel of decoded weights: 16 MB in float32, enough rows to keep the product busy. Whole tasks, so that on a GPU every panel of y is aligned as y is.
constexpr std::int64_t kPanelElements = std::int64_t(1) << 22;
std::int64_t panel_rows(std::int64_t rows, std::int64_t columns) {
  return std::min(rows, std::max(kRowsPerTask, kPanelElements / std::max<std::int64_t>(columns, 1) / kRowsPerTask * kRowsPerTask));
}

void for_row_tasks(ExecContext& ctx, std::int64_t rows, const std::function<void(std::int64_t first, std::int64_t count)>& body) {
  ctx.pool->for_each(ceil_div(rows, kRowsPerTask), [&](std::int64_t task) {
    const std::int64_t first = task * kRowsPerTask;
    body(first, std::min(kRowsPerTask, rows - first));
  });
}

Tensor converted(ExecContext& ctx, const TensorView& weight, DType dtype, std::string_view name) {
  Tensor copy(dtype, weight.shape, {}, "converted weight");
  const TensorView to = copy;
  for_row_tasks(ctx, weight.rows(), [&](std::int64_t first, std::int64_t count) {
    std::vector<float> row(std::size_t(weight.columns()));
    for (std::int64_t n = first; n < first + count; ++n) {
      load_as_float(weight.row_bytes(n), weight.dtype, weight.columns(), row.data());
      store_weight(row.data(), weight.columns(), dtype, to.row_bytes(n), name);
    }
  });
  return copy;
}

// What a weight of floats becomes on a GPU. One in 4 or 8 bits is multiplied in 16, and kept decoded; where int8 is asked for, layers that the file left plain
// stay as stored, but beside float16 rows they must be float16 to meet tensor cores.
DType floats_on_gpu(const LinearUse& use) {
  if (is_float(use.format.storage)) return use.format.storage;
  return use.format.storage != DType::s8 || use.decoded == DType::f16 ? use.decoded : DType::f32;
}

// An epilogue for the columns [first, first + count) of a wider result.
Epilogue sliced(const Epilogue& epilogue, std::int64_t first, std::int64_t count) {
  Epilogue slice = epilogue;
  if (slice.mod_gate) slice.mod_gate = TensorView(slice.mod_gate->as<float>() + first, DType::f32, {count}, slice.mod_gate->device);
  if (slice.residual) slice.residual = slice.residual->column_range(first, count);
  return slice;
}

TensorView bias_rows(const TensorView& bias, std::int64_t first, std::int64_t count) {
  return {static_cast<std::byte*>(bias.data) + std::size_t(first) * bytes_of(bias.dtype), bias.dtype, {count}, bias.device};
}

// Rows in pairs without the epilogue that wants them so.
void halves(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y) {
  if (epilogue.activation != Activation::none || epilogue.mod_gate || epilogue.residual)
    throw InternalError(fmt::format("linear '{}': rows in pairs take the epilogue silu_mul or none", w.name));
  linear_halves(ctx, x, w, y);
}

RowSmoothing smoothing_of(const StoredLinear& stored) {
  if (stored.smoothing == Smoothing::none) return {};
  return {stored.smoothing, TensorView(const_cast<float*>(stored.smooth.data()), DType::f32, {stored.in_features()})};  // a view has no const
}

// On the host.
bool is_same(const RowSmoothing& a, const RowSmoothing& b) {
  return a.way == b.way && a.s.shape == b.s.shape && (!a.acts() || std::equal(a.s.as<float>(), a.s.as<float>() + a.s.shape.elements(), b.s.as<float>()));
}

}  // namespace

Linear::Linear(ExecContext& ctx, const WeightStore& store, const std::vector<LinearPart>& parts, bool has_bias, const LinearUse& use)
    : dequantizes_(use.dequantizes), component_(store.component()) {
  const NumberFormat& format = use.format;
  const bool is_s8 = format.storage == DType::s8 && format.granularity == Granularity::per_channel;
  const bool is_fp8 = format.storage == DType::f8_e4m3 && format.granularity == Granularity::per_channel;
  const bool is_nf4 = format.storage == DType::u8 && format.granularity == Granularity::per_group && format.group > 0;
  if (!is_s8 && !is_fp8 && !is_nf4 && (format.is_quantized() || !is_float(format.storage))) {
    throw Unsupported(
        fmt::format("{}: weights in {} are not built; f32, bf16, f16, s8 and e4m3 per channel and NF4 are", store.component(), name_of(format.storage)));
  }
  if (store.is_random()) {
    if (!ctx.draws_weights) refuse_random(store);
    draw(ctx, store, parts, has_bias, use);
    return;
  }

  const bool quantizes = is_s8 && !store.has_int8();
  const DType floats = ctx.device.is_cpu() ? is_float(format.storage) ? format.storage : DType::f32 : floats_on_gpu(use);
  std::map<std::string, std::int64_t> rows_taken;
  for (const LinearPart& part : parts) {
    const StoredLinear& stored = store.linear(part.module);
    std::int64_t& first = rows_taken[part.module];
    const std::int64_t rows = part.rows > 0 ? part.rows : stored.out_features() - first;
    LinearWeights weights;
    weights.name = part.module;
    if (has_bias) {
      weights.bias = bias_rows(store.get(part.module + ".bias"), first, rows);
      mapped_bytes_ += std::int64_t(weights.bias->bytes());
    }
    if (stored.format == LinearFormat::s8 && (is_s8 || use.keep_int8)) {
      add_int8(stored, std::move(weights), first, rows);
    } else if (quantizes) {
      weights.weight = TensorView(nullptr, DType::s8, {rows, stored.in_features()});
      parts_.push_back(std::move(weights));
      sources_.push_back({&stored, first, false});
    } else if ((is_fp8 && stored.format != LinearFormat::e4m3) || (is_nf4 && stored.format != LinearFormat::nf4)) {
      add_float(ctx, store, encoded(ctx, stored, first, rows, format), std::move(weights), 0, rows, floats);
      if (first + rows == stored.out_features()) store.release(part.module + ".weight");
    } else {
      add_float(ctx, store, stored, std::move(weights), first, rows, floats);
    }
    first += rows;
  }
  if (quantizes) quantize(ctx, store);
  if (!ctx.device.is_cpu()) move_to_gpu(ctx, store, use.pairs_rows);
}

// Rows of a matrix in another format, made once.
const StoredLinear& Linear::encoded(ExecContext& ctx, const StoredLinear& stored, std::int64_t first_row, std::int64_t rows, const NumberFormat& format) {
  encoded_.push_back(std::make_unique<Encoded>());
  Encoded& own = *encoded_.back();
  const std::int64_t columns = stored.in_features(), count = rows * columns;
  own.linear.module = stored.module;
  own.linear.shape = {rows, columns};
  if (format.storage == DType::f8_e4m3) {
    own.linear.format = LinearFormat::e4m3;
    own.codes.resize(std::size_t(count));
    own.linear.scale.resize(std::size_t(rows));
    for_row_tasks(ctx, rows, [&](std::int64_t first, std::int64_t task_rows) {
      std::vector<float> w(static_cast<std::size_t>(columns));
      for (std::int64_t n = first; n < first + task_rows; ++n) {
        decode_rows(stored, first_row + n, 1, w.data());
        own.linear.scale[std::size_t(n)] = encode_e4m3(w.data(), columns, own.codes.data() + n * columns);
      }
    });
  } else {
    own.linear.format = LinearFormat::nf4;
    own.codes.resize(std::size_t(ceil_div(count, 2)));
    own.absmax.resize(std::size_t(ceil_div(count, format.group)));
    // Blocks do not know rows: tasks begin where a block, a row and a byte begin together.
    const std::int64_t task_rows = std::int64_t(format.group) * 2 / std::gcd(columns, std::int64_t(format.group) * 2);
    ctx.pool->for_each(ceil_div(rows, task_rows), [&](std::int64_t task) {
      const std::int64_t first = task * task_rows, taken = std::min(task_rows, rows - first);
      std::vector<float> w(static_cast<std::size_t>(taken * columns));
      decode_rows(stored, first_row + first, taken, w.data());
      encode_nf4(w.data(), taken * columns, format.group, own.codes.data() + first * columns / 2, own.absmax.data() + first * columns / format.group);
    });
    own.linear.nf4 = {.packed = own.codes.data(), .map = kNf4Map, .absmax = own.absmax.data(), .block = format.group};
  }
  own.linear.codes = reinterpret_cast<const std::byte*>(own.codes.data());
  return own.linear;
}

// Codes stay in the map. Consecutive rows of one module are one product: its sums are exact, so the bits are those of the parts.
void Linear::add_int8(const StoredLinear& stored, LinearWeights weights, std::int64_t first_row, std::int64_t rows) {
  const bool continues = !parts_.empty() && sources_.back().stored == &stored && sources_.back().first_row + parts_.back().out_features() == first_row &&
                         parts_.back().weight.dtype == DType::s8;
  const std::int64_t added_rows = rows;
  if (continues) {
    first_row = sources_.back().first_row;
    rows += parts_.back().out_features();
    if (weights.bias) weights.bias = bias_rows(*parts_.back().bias, 0, rows);
    parts_.pop_back();
    sources_.pop_back();
    owned_.pop_back();
  }
  const std::int64_t columns = stored.in_features();
  std::byte* codes = const_cast<std::byte*>(stored.codes) + first_row * columns;  // a view has no const; the map is read-only
  weights.weight = TensorView(codes, DType::s8, {rows, columns});
  weights.rotation_group = stored.rotation_group;
  weights.smoothing = smoothing_of(stored);
  Tensor scale(DType::f32, {rows}, {}, stored.module);
  for (std::int64_t n = 0; n < rows; ++n) scale.as<float>()[n] = stored.row_scale(first_row + n);
  weights.scale = scale;
  mapped_bytes_ += added_rows * columns;
  parts_.push_back(std::move(weights));
  sources_.push_back({&stored, first_row, false});
  owned_.push_back(std::move(scale));
}

void Linear::add_float(ExecContext& ctx, const WeightStore& store, const StoredLinear& stored, LinearWeights weights, std::int64_t first_row, std::int64_t rows,
                       DType dtype) {
  const bool is_decoded = stored.format != LinearFormat::plain;
  weights.rounds_x = dtype == DType::f16;  // asked for; beside a weight that only the file has in float16, rows keep their bits
  if (is_decoded) {
    weights.weight = TensorView(nullptr, dtype, {rows, stored.in_features()});
    mapped_bytes_ += stored.bytes / std::max<std::int64_t>(stored.out_features(), 1) * rows;
  } else {
    weights.weight = store.get(stored.module + ".weight").reshaped(stored.shape).row_range(first_row, rows);
    if (dtype != DType::f32 && weights.weight.dtype != dtype) {
      owned_.push_back(converted(ctx, weights.weight, dtype, fmt::format("{} '{}.weight'", component_, stored.module)));
      weights.weight = owned_.back();
    } else {
      mapped_bytes_ += std::int64_t(weights.weight.bytes());
    }
  }
  parts_.push_back(std::move(weights));
  sources_.push_back({&stored, first_row, is_decoded});
}

// One own matrix from all parts, row by row from whatever they are stored in.
void Linear::quantize(ExecContext& ctx, const WeightStore& store) {
  LinearWeights fused;
  fused.name = parts_.size() == 1 ? parts_[0].name : fmt::format("{} (+{})", parts_[0].name, parts_.size() - 1);
  Tensor q(DType::s8, {out_features(), in_features()}, {}, fused.name);
  Tensor scale(DType::f32, {out_features()}, {}, fused.name);
  const bool has_bias = parts_[0].bias.has_value();
  Tensor bias = has_bias ? Tensor(DType::f32, {out_features()}, {}, fused.name) : Tensor();
  const TensorView codes = q;
  std::int64_t first_row = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const LinearWeights& part = parts_[i];
    const Source& source = sources_[i];
    for_row_tasks(ctx, part.out_features(), [&](std::int64_t first, std::int64_t count) {
      std::vector<float> row(static_cast<std::size_t>(in_features()));
      for (std::int64_t n = first; n < first + count; ++n) {
        decode_rows(*source.stored, source.first_row + n, 1, row.data());
        scale.as<float>()[first_row + n] = quantize_weight_row(row.data(), in_features(), codes.row<std::int8_t>(first_row + n));
      }
    });
    if (has_bias) load_as_float(part.bias->data, part.bias->dtype, part.out_features(), bias.as<float>() + first_row);
    first_row += part.out_features();
    const bool is_last_of_module = i + 1 == parts_.size() || sources_[i + 1].stored != source.stored;
    if (is_last_of_module) store.release(part.name + ".weight");
  }
  fused.weight = q;
  fused.scale = scale;
  if (has_bias) fused.bias = bias;
  mapped_bytes_ = 0;
  parts_.assign(1, fused);
  sources_.assign(1, Source{});
  owned_.clear();
  owned_.push_back(std::move(q));
  owned_.push_back(std::move(scale));
  if (has_bias) owned_.push_back(std::move(bias));
}

// One matrix on the GPU from parts of one kind (their outputs stand behind each other anyway), or each part by itself.
void Linear::move_to_gpu(ExecContext& ctx, const WeightStore& store, bool pairs_rows) {
  std::vector<Tensor> on_gpu;
  std::vector<std::string> read;  // modules whose pages of the file are not needed any more
  bool is_one = true;
  for (const LinearWeights& part : parts_) {
    const LinearWeights& head = parts_[0];
    is_one = is_one && part.weight.dtype == head.weight.dtype && part.rotation_group == head.rotation_group && is_same(part.smoothing, head.smoothing) &&
             part.bias.has_value() == head.bias.has_value() && (!part.bias || part.bias->dtype == head.bias->dtype);
    read.push_back(part.name);
  }
  if (pairs_rows && is_one && parts_[0].weight.dtype == DType::s8 && !parts_[0].bias && !dequantizes_) pair_rows(ctx);

  std::vector<LinearWeights> moved;
  const std::size_t step = is_one ? parts_.size() : 1;
  for (std::size_t first = 0; first < parts_.size(); first += step) {
    LinearWeights whole = parts_[first];
    if (step > 1) whole.name = fmt::format("{} (+{})", whole.name, step - 1);
    std::int64_t rows = 0;
    for (std::size_t i = first; i < first + step; ++i) rows += parts_[i].out_features();
    Tensor weight(whole.weight.dtype, {rows, whole.in_features()}, ctx.device, whole.name);
    Tensor scale = whole.scale ? Tensor(DType::f32, {rows}, ctx.device, whole.name) : Tensor();
    Tensor bias = whole.bias ? Tensor(whole.bias->dtype, {rows}, ctx.device, whole.name) : Tensor();
    const auto copy = [&](const TensorView& from, const Tensor& to, std::int64_t at_row, std::int64_t row_elements) {
      auto* begin = static_cast<std::byte*>(to.as<void>()) + std::size_t(at_row * row_elements) * bytes_of(to.dtype());
      copy_bytes(begin, ctx.device, from.data, Device{}, from.bytes(), ctx.stream);
    };
    std::int64_t at_row = 0;
    for (std::size_t i = first; i < first + step; ++i) {
      const LinearWeights& part = parts_[i];
      if (sources_[i].is_decoded) {
        Tensor decoded(part.weight.dtype, part.weight.shape, {}, part.name);
        const std::string who = fmt::format("{} '{}.weight'", component_, part.name);
        const TensorView to = decoded;
        for_row_tasks(ctx, part.out_features(), [&](std::int64_t task_first, std::int64_t count) {
          std::vector<float> row(static_cast<std::size_t>(part.in_features()));
          for (std::int64_t n = task_first; n < task_first + count; ++n) {
            decode_rows(*sources_[i].stored, sources_[i].first_row + n, 1, row.data());
            store_weight(row.data(), part.in_features(), to.dtype, to.row_bytes(n), who);
          }
        });
        copy(decoded, weight, at_row, part.in_features());
      } else {
        copy(part.weight, weight, at_row, part.in_features());
      }
      if (part.scale) copy(*part.scale, scale, at_row, 1);
      if (part.bias) copy(*part.bias, bias, at_row, 1);
      at_row += part.out_features();
    }
    whole.weight = weight;
    on_gpu.push_back(std::move(weight));
    if (whole.scale) {
      whole.scale = scale;
      on_gpu.push_back(std::move(scale));
    }
    if (whole.bias) {
      whole.bias = bias;
      on_gpu.push_back(std::move(bias));
    }
    if (whole.smoothing.acts()) {
      on_gpu.push_back(to_device(ctx, whole.smoothing.s, whole.name));
      whole.smoothing.s = on_gpu.back();
    }
    moved.push_back(std::move(whole));
  }
  parts_ = std::move(moved);
  sources_.assign(parts_.size(), Source{});
  owned_ = std::move(on_gpu);
  encoded_.clear();
  mapped_bytes_ = 0;
  for (const std::string& module : read) {
    if (store.has(module + ".weight")) store.release(module + ".weight");
  }
}

// What the constructor makes of a checkpoint, without one: numbers of the right type and size, the same on every device. Paired rows of random numbers are
// random.
void Linear::draw(ExecContext& ctx, const WeightStore& store, const std::vector<LinearPart>& parts, bool has_bias, const LinearUse& use) {
  std::map<std::string, std::int64_t> rows_taken;
  LinearWeights whole;
  whole.name = parts.size() == 1 ? parts[0].module : fmt::format("{} (+{})", parts[0].module, parts.size() - 1);
  std::int64_t rows = 0;
  for (const LinearPart& part : parts) {
    std::int64_t& taken = rows_taken[part.module];
    const std::int64_t count = part.rows > 0 ? part.rows : store.linear(part.module).out_features() - taken;
    taken += count;
    rows += count;
  }
  const StoredLinear& stored = store.linear(parts[0].module);
  const bool is_s8 = use.format.storage == DType::s8;
  const float sigma = 1.0f / std::sqrt(float(stored.in_features()));
  const std::uint64_t seed = std::hash<std::string>{}(whole.name);
  const auto add = [&](DType dtype, Shape shape, float spread, std::uint64_t salt) -> TensorView {
    owned_.emplace_back(dtype, shape, ctx.device, whole.name);
    random_fill(ctx, owned_.back(), spread, seed + salt);
    return owned_.back();
  };
  whole.weight = add(is_s8 ? DType::s8 : use.format.storage == DType::f16 ? DType::f16 : stored.dtype, {rows, stored.in_features()}, sigma, 0);
  if (is_s8) {
    const Tensor scale(DType::f32, {rows}, {}, whole.name);
    std::fill_n(scale.as<float>(), rows, sigma / kRandomCodeSigma);
    owned_.push_back(to_device(ctx, scale, whole.name));
    whole.scale = owned_.back();
  }
  if (has_bias) whole.bias = add(DType::f32, {rows}, 0.02f, 1);
  whole.rounds_x = whole.weight.dtype == DType::f16;
  has_pairs_ = use.pairs_rows && !ctx.device.is_cpu() && is_s8 && !has_bias && !dequantizes_ && rows % 2 == 0;
  parts_.assign(1, std::move(whole));
  sources_.assign(1, Source{});
}

// One int8 matrix on the host whose row 2n is row n of all parts together and whose row 2n + 1 is row N/2 + n.
void Linear::pair_rows(ExecContext& ctx) {
  const std::int64_t rows = out_features(), columns = in_features(), half = rows / 2;
  if (rows % 2 != 0) return;
  std::vector<const std::int8_t*> row_of;
  std::vector<float> scale_of;
  for (const LinearWeights& part : parts_) {
    for (std::int64_t n = 0; n < part.out_features(); ++n) {
      row_of.push_back(part.weight.row<const std::int8_t>(n));
      scale_of.push_back(part.scale->as<float>()[n]);
    }
  }
  LinearWeights paired = parts_[0];
  Tensor weight(DType::s8, {rows, columns}, {}, paired.name), scale(DType::f32, {rows}, {}, paired.name);
  const TensorView to = weight;
  for_row_tasks(ctx, rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t n = first; n < first + count; ++n) {
      const std::size_t from = std::size_t(n / 2 + (n % 2) * half);
      std::memcpy(to.row<std::int8_t>(n), row_of[from], std::size_t(columns));
      scale.as<float>()[n] = scale_of[from];
    }
  });
  paired.name = parts_.size() == 1 ? paired.name : fmt::format("{} (+{})", paired.name, parts_.size() - 1);
  paired.weight = weight;
  paired.scale = scale;
  parts_.assign(1, std::move(paired));
  sources_.assign(1, Source{});
  owned_.clear();
  owned_.push_back(std::move(weight));
  owned_.push_back(std::move(scale));
  has_pairs_ = true;
}

RowFormat Linear::input() const {
  RowFormat common{.is_quantized = !parts_.empty(), .rotation_group = parts_.empty() ? 0 : parts_[0].rotation_group};
  for (const LinearWeights& part : parts_) {
    if (part.weight.dtype != DType::s8 || part.smoothing.acts() || part.rotation_group != common.rotation_group) return {};
  }
  return common;
}

// Rows as an int8 part reads them: smoothed if its weight was, rotated, quantised. In ctx.scratch.
QuantizedView Linear::quantized_rows(ExecContext& ctx, const TensorView& x, std::size_t part) const {
  QuantizedView view;
  view.q = scratch_tensor(ctx, DType::s8, {x.rows(), x.columns()}, "quantised rows");
  view.scale = scratch_tensor(ctx, DType::f32, {x.rows()}, "quantised rows");
  view.rotation_group = parts_[part].rotation_group;
  quantize_rows(ctx, x, view, parts_[part].smoothing);
  return view;
}

// A panel of weight rows at a time is decoded into scratch and multiplied; outputs do not depend on each other, so the panels do not show.
void Linear::forward_decoded(ExecContext& ctx, const TensorView& x, std::size_t part, const Epilogue& epilogue, const TensorView& y) const {
  const ArenaScope scope(*ctx.scratch);
  const LinearWeights& whole = parts_[part];
  const Source& source = sources_[part];
  const std::int64_t rows = whole.out_features(), columns = whole.in_features(), step = panel_rows(rows, columns);
  const TensorView memory = scratch_tensor(ctx, whole.weight.dtype, {step, columns}, "decoded weight");
  const std::string who = fmt::format("{} '{}.weight'", component_, whole.name);
  for (std::int64_t first = 0; first < rows; first += step) {
    LinearWeights panel = whole;
    const std::int64_t count = std::min(step, rows - first);
    panel.weight = memory.row_range(0, count);
    if (whole.bias) panel.bias = bias_rows(*whole.bias, first, count);
    for_row_tasks(ctx, count, [&](std::int64_t task_first, std::int64_t task_count) {
      std::vector<float> row(static_cast<std::size_t>(columns));
      for (std::int64_t n = task_first; n < task_first + task_count; ++n) {
        decode_rows(*source.stored, source.first_row + first + n, 1, row.data());
        store_weight(row.data(), columns, memory.dtype, memory.row_bytes(n), who);
      }
    });
    linear(ctx, x, panel, sliced(epilogue, first, count), y.column_range(first, count));
  }
}

// What the field called INT8: both sides back to bf16, then a float product. Rotated rows meet rotated weights.
void Linear::forward_dequantized(ExecContext& ctx, const QuantizedView& x, std::size_t part, const Epilogue& epilogue, const TensorView& y) const {
  const ArenaScope scope(*ctx.scratch);
  const LinearWeights& whole = parts_[part];
  const std::int64_t rows = whole.out_features(), step = panel_rows(rows, whole.in_features());
  const TensorView floats = scratch_tensor(ctx, DType::bf16, x.q.shape, "dequantised rows");
  dequantize_rows(ctx, x, floats);
  const TensorView memory = scratch_tensor(ctx, DType::bf16, {step, whole.in_features()}, "dequantised weight");
  const RowOutput codes = QuantizedView{.q = whole.weight, .scale = *whole.scale, .rotation_group = whole.rotation_group};
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    LinearWeights panel;
    panel.name = whole.name;
    panel.weight = memory.row_range(0, count);
    if (whole.bias) panel.bias = bias_rows(*whole.bias, first, count);
    dequantize_rows(ctx, std::get<QuantizedView>(row_range(codes, first, count)), panel.weight);
    linear(ctx, floats, panel, sliced(epilogue, first, count), y.column_range(first, count));
  }
}

void Linear::forward(ExecContext& ctx, const RowOutput& x, const Epilogue& epilogue, const TensorView& y) const {
  const ArenaScope scope(*ctx.scratch);
  auto* watcher = dynamic_cast<ActivationObserver*>(ctx.observer);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const LinearWeights& part = parts_[i];
    const std::int64_t count = part.out_features();
    const Epilogue slice = sliced(epilogue, first, count);
    const TensorView columns = parts_.size() == 1 ? y : y.column_range(first, count);
    first += count;
    const auto int8_product = [&](const QuantizedView& codes) {
      if (dequantizes_) return forward_dequantized(ctx, codes, i, slice, columns);
      if (has_pairs_ && epilogue.activation != Activation::silu_mul) return halves(ctx, codes, part, epilogue, columns);
      linear(ctx, codes, part, slice, columns);
    };
    if (const auto* codes = std::get_if<QuantizedView>(&x)) {
      int8_product(*codes);
      continue;
    }
    const TensorView& floats = std::get<TensorView>(x);
    if (watcher != nullptr) watcher->on_activations(component_, part.name, floats);
    if (part.weight.dtype == DType::s8) {
      const ArenaScope rows_scope(*ctx.scratch);
      int8_product(quantized_rows(ctx, floats, i));
    } else if (sources_[i].is_decoded) {
      forward_decoded(ctx, floats, i, slice, columns);
    } else {
      linear(ctx, floats, part, slice, columns);
    }
  }
}

void Linear::add_to_bias(ExecContext& ctx, const TensorView& row) {
  if (parts_.size() != 1 || !parts_[0].bias) throw InternalError("linear: a row is added to the bias of a single projection only");
  LinearWeights& part = parts_[0];
  const bool is_host = part.bias->device.is_cpu();
  Tensor sum = to_float_tensor(is_host ? *part.bias : to_cpu(ctx, *part.bias, part.name));
  const Tensor addend = to_float_tensor(row);
  for (std::int64_t n = 0; n < part.out_features(); ++n) sum.as<float>()[n] += addend.as<float>()[n];
  owned_.push_back(is_host ? std::move(sum) : to_device(ctx, sum, part.name));
  part.bias = owned_.back();
}

std::vector<TensorView*> Linear::weight_views() {
  std::vector<TensorView*> views;
  for (LinearWeights& part : parts_) {
    if (part.weight.data != nullptr) views.push_back(&part.weight);
    if (part.scale) views.push_back(&*part.scale);
    if (part.bias) views.push_back(&*part.bias);
    if (part.smoothing.acts()) views.push_back(&part.smoothing.s);
  }
  return views;
}

void Linear::let_go() {
  owned_.clear();
  mapped_bytes_ = 0;
}

void LinearPlan::take_scratch(ScratchCount& scratch, Device device, std::int64_t rows, DType x) const {
  const std::int64_t mark = scratch.mark();
  if (has_int8 && x != DType::s8) {
    scratch.take(DType::s8, {rows, in_features});
    scratch.take(DType::f32, {rows});
  }
  if (has_int8 && dequantized_rows > 0) {
    scratch.take(DType::bf16, {rows, in_features});
    scratch.take(DType::bf16, {dequantized_rows, in_features});
  }
  scratch.rewind(mark);
  if (!rounds_x || device.is_cpu() || x == DType::f16 || x == DType::s8) return;
  scratch.take(DType::f16, {rows, in_features});
  scratch.take(DType::f32, {rows});
  scratch.rewind(mark);
}

LinearPlan plan_linear(const WeightStore& store, const std::vector<LinearPart>& parts, bool has_bias, const LinearUse& use) {
  struct Part {
    DType dtype{}, bias{};
    std::int64_t rows = 0;
    int rotation_group = 0;
    RowSmoothing smoothing{};
  };
  const NumberFormat& format = use.format;
  const bool is_s8 = format.storage == DType::s8 && format.granularity == Granularity::per_channel;
  const bool is_4_or_8_bit = format.is_quantized() && !is_s8;
  const DType floats = floats_on_gpu(use);
  std::vector<Part> planned;
  std::map<std::string, std::int64_t> rows_taken;
  LinearPlan plan;
  for (const LinearPart& part : parts) {
    const StoredLinear& stored = store.linear(part.module);
    std::int64_t& first = rows_taken[part.module];
    Part one{.rows = part.rows > 0 ? part.rows : stored.out_features() - first};
    first += one.rows;
    const bool is_native = stored.format == LinearFormat::s8 && (is_s8 || use.keep_int8);
    const bool quantizes = is_s8 && !store.has_int8();
    const bool keeps_dtype = stored.format == LinearFormat::plain && floats == DType::f32 && !is_4_or_8_bit;
    one.dtype = is_native || quantizes ? DType::s8 : keeps_dtype ? stored.dtype : floats;
    if (is_native) one.rotation_group = stored.rotation_group;
    if (is_native) one.smoothing = smoothing_of(stored);
    if (has_bias) one.bias = quantizes ? DType::f32 : store.get(part.module + ".bias").dtype;
    plan.has_int8 = plan.has_int8 || one.dtype == DType::s8;
    plan.rounds_x = plan.rounds_x || (one.dtype == DType::f16 && floats == DType::f16);
    plan.in_features = stored.in_features();
    planned.push_back(one);
  }
  const Part& head = planned.at(0);
  const bool is_one = std::all_of(planned.begin(), planned.end(), [&](const Part& part) {
    return part.dtype == head.dtype && part.rotation_group == head.rotation_group && part.bias == head.bias && is_same(part.smoothing, head.smoothing);
  });
  for (std::size_t begin = 0; begin < planned.size();) {
    const std::size_t end = is_one ? planned.size() : begin + 1;
    std::int64_t rows = 0;
    for (std::size_t i = begin; i < end; ++i) rows += planned[i].rows;
    plan.memory.add_tensor(planned[begin].dtype, {rows, plan.in_features});
    if (planned[begin].dtype == DType::s8) plan.memory.add_tensor(DType::f32, {rows});
    if (has_bias) plan.memory.add_tensor(planned[begin].bias, {rows});
    if (planned[begin].smoothing.acts()) plan.memory.add_tensor(DType::f32, {plan.in_features});
    const bool is_int8 = planned[begin].dtype == DType::s8;
    if (is_int8 && use.dequantizes) plan.dequantized_rows = std::max(plan.dequantized_rows, panel_rows(rows, plan.in_features));
    plan.has_pairs = use.pairs_rows && is_one && is_int8 && !has_bias && !use.dequantizes && rows % 2 == 0;
    begin = end;
  }
  const bool reads_codes = std::all_of(planned.begin(), planned.end(), [&](const Part& part) {
    return part.dtype == DType::s8 && part.rotation_group == head.rotation_group && !part.smoothing.acts();
  });
  if (reads_codes) plan.input = {.is_quantized = true, .rotation_group = head.rotation_group};
  return plan;
}

std::int64_t Linear::out_features() const {
  std::int64_t sum = 0;
  for (const LinearWeights& part : parts_) sum += part.out_features();
  return sum;
}

std::int64_t Linear::in_features() const { return parts_.at(0).in_features(); }

std::int64_t Linear::owned_bytes() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : owned_) sum += std::int64_t(tensor.bytes());
  for (const auto& matrix : encoded_) sum += std::int64_t(matrix->codes.size() + (matrix->absmax.size() + matrix->linear.scale.size()) * sizeof(float));
  return sum;
}

}  // namespace octavo::nn
