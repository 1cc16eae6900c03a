#include "models/ideogram4/footprint.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked_math.h"
#include "models/checkpoint.h"
#include "models/ideogram4/conditioning.h"
#include "models/ideogram4/params.h"
#include "nn/lora.h"
#include "weights/weight_store.h"

namespace octavo::ideogram4 {
namespace {

constexpr std::int64_t kMlpRows = 1024;

// Rows [M, K] in the form that a projection asks for.
void take_rows(nn::ScratchCount& scratch, bool is_quantized, DType floats, std::int64_t rows, std::int64_t columns) {
  if (!is_quantized) return scratch.take(floats, {rows, columns});
  scratch.take(DType::s8, {rows, columns});
  scratch.take(DType::f32, {rows});
}

// What attention_int8 takes, and gives back.
void take_attention_codes(nn::ScratchCount& scratch, Device device, const Config& config, std::int64_t rows, std::int64_t live_rows) {
  const std::int64_t mark = scratch.mark(), hidden = config.hidden();
  scratch.take(DType::s8, {live_rows, hidden});
  scratch.take(DType::s8, {rows, hidden});
  scratch.take(DType::f32, {config.heads, live_rows});
  scratch.take(DType::f32, {config.heads, rows});
  scratch.take(DType::f16, {rows, hidden});
  scratch.take(DType::f32, {config.heads});
  if (!device.is_cpu()) {  // for the mean of the keys
    const std::int64_t runs = ceil_div(rows, std::int64_t(64));
    scratch.take(DType::f32, {runs * hidden});
    scratch.take(DType::f32, {runs * hidden / 64});
    scratch.take(DType::f32, {hidden});
  }
  scratch.rewind(mark);
}

std::int64_t packed_bytes(const nn::Footprint& layer, std::int64_t tensors) { return layer.bytes + 256 * tensors; }

}  // namespace

std::int64_t mlp_panel_rows(Device device, std::int64_t rows) { return device.is_cpu() ? ceil_div(rows, ceil_div(rows, kMlpRows)) : rows; }

DitFootprint::DitFootprint(const std::filesystem::path& folder, const std::string& component, const Precision& precision)
    : config_(Config::read(folder)), rows_(precision.rows), residual_(precision.residual) {
  const bool has_text = !component.starts_with("unconditional");
  const WeightStore store(folder, component, models::find_overlay(folder.parent_path(), has_text ? "conditional." : "unconditional."));
  const Names names = Names::find(store);
  const std::string text_prefix = names("llm_cond_");
  const std::vector<std::string_view> unread = has_text ? std::vector<std::string_view>{} : std::vector<std::string_view>{text_prefix};
  (void)store.check(parameters(config_, names, has_text), unread);

  nn::LinearUse in_pairs(precision);
  in_pairs.pairs_rows = true;
  const nn::LinearUse inside(precision), outside(NumberFormat{}, precision.activation.is_quantized(), precision.dequantizes());
  const auto norm = [&](std::string_view name, int l, nn::Footprint& sum) { sum.add_tensor(std::int64_t(store.get(names.layer(l, name)).bytes())); };
  const auto biased = [&](const std::string& module, nn::Footprint& sum) {
    const nn::LinearPlan plan = nn::plan_linear(store, {{module}}, true, outside);
    sum += plan.memory;
    return plan;
  };
  const auto changed_bias = [&](nn::Footprint& sum) { sum.add_tensor(DType::f32, {config_.hidden()}); };  // Linear::add_to_bias keeps both
  input_ = biased(names("input_proj"), rest_);
  changed_bias(rest_);
  output_ = biased(names("final_layer.linear"), rest_);
  for (int l = 0; l < config_.layers; ++l) {
    Layer layer;
    nn::Footprint sum;
    const auto linear = [&](const std::vector<nn::LinearPart>& parts, const nn::LinearUse& use) {
      const nn::LinearPlan plan = nn::plan_linear(store, parts, false, use);
      sum += plan.memory;
      return plan;
    };
    layer.qkv = linear(names.qkv(config_, l), inside);
    layer.attention_output = linear({{names.attention_output(l)}}, inside);
    layer.w13 = linear({{names.layer(l, "feed_forward.w1")}, {names.layer(l, "feed_forward.w3")}}, in_pairs);
    layer.w2 = linear({{names.layer(l, "feed_forward.w2")}}, inside);
    layers_.push_back(std::move(layer));
    layer_bytes_.push_back(sum);
    constexpr int kMostTensors = 21;  // a matrix, a scale and a smoothing vector for each of seven parts
    largest_streamed_ = std::max(largest_streamed_, packed_bytes(sum, kMostTensors));
    for (const std::string_view name :
         {"attention.norm_q.weight", "attention.norm_k.weight", "attention_norm1.weight", "attention_norm2.weight", "ffn_norm1.weight", "ffn_norm2.weight"}) {
      norm(name, l, rest_);
    }
  }
  if (has_text) {
    conditioning_.add_tensor(std::int64_t(store.get(names("llm_cond_norm.weight")).bytes()));
    text_ = biased(names("llm_cond_proj"), conditioning_);
    changed_bias(conditioning_);
  }
  time_in_ = biased(names("t_embedding.mlp_in"), conditioning_);
  time_out_ = biased(names("t_embedding.mlp_out"), conditioning_);
  adaln_ = biased(names("adaln_proj"), conditioning_);
  for (int l = 0; l < config_.layers; ++l) (void)biased(names.layer(l, "adaln_modulation"), conditioning_);
  final_modulation_ = biased(names("final_layer.adaln_modulation"), conditioning_);
}

nn::Footprint DitFootprint::session(Device device, const PictureSize& size) const {
  const std::int64_t rows = size.text_rows + size.image_rows, hidden = config_.hidden();
  nn::Footprint sum;
  if (size.text_rows > 0) sum.add_tensor(residual_, {size.text_rows, hidden});
  for (int i = 0; i < 2; ++i) sum.add_tensor(DType::f32, {rows, config_.head_dim / 2});
  sum.add_tensor(DType::f32, {size.steps, config_.layers * 4 * hidden});
  sum.add_tensor(DType::f32, {size.steps, hidden});
  if (!device.is_cpu()) sum.add_tensor(DType::f32, {(config_.layers * 4 + 1) * hidden});  // one step's rows
  return sum;
}

nn::Footprint DitFootprint::placed_loras(const PictureSize& size) const {
  nn::Footprint sum;
  if (size.lora != nullptr) sum.add_tensor(nn::placed_lora_bytes(*size.lora, rows_));
  return sum;
}

nn::Footprint DitFootprint::placed_features(const PictureSize& size) const {
  nn::Footprint sum;
  if (size.text_rows > 0) sum.add_tensor(DType::f32, {size.text_rows, config_.llm_features});
  return sum;
}

DitFootprint::Projection DitFootprint::projection(const nn::LinearPlan& plan, const PictureSize& size, const std::string& name) const {
  if (size.lora == nullptr) return {plan};
  const auto found = size.lora->find(name);
  return found == size.lora->end() ? Projection{plan} : Projection{plan, found->second};
}

// What nn::LoraLinear takes and gives back for rows of `x`; s8: codes from a producer.
void DitFootprint::take_linear(nn::ScratchCount& scratch, Device device, const Projection& linear, std::int64_t rows, DType x) const {
  linear.plan.take_scratch(scratch, device, rows, x);
  nn::take_lora_scratch(scratch, device, linear.terms, rows, x, rows_);
}

std::int64_t DitFootprint::prepare_scratch_bytes(Device device, const PictureSize& size) const {
  nn::ScratchCount scratch;
  const auto take = [&](const nn::LinearPlan& plan, const std::string& name, std::int64_t rows) {
    take_linear(scratch, device, projection(plan, size, name), rows, DType::f32);
  };
  if (size.text_rows > 0) {
    const std::int64_t rows = std::min(kTextRowsPerPanel, size.text_rows);
    scratch.take(DType::f32, {rows, config_.llm_features});
    take(text_, "llm_cond_proj", rows);
    scratch.rewind(0);
  }
  scratch.take(DType::f32, {size.steps, config_.hidden()});
  scratch.take(DType::f32, {size.steps, config_.hidden()});
  scratch.take(DType::f32, {size.steps, config_.adaln});
  take(time_in_, "t_embedding.mlp_in", size.steps);
  take(time_out_, "t_embedding.mlp_out", size.steps);
  take(adaln_, "adaln_proj", size.steps);
  for (int l = 0; l < config_.layers; ++l) take(final_modulation_, fmt::format("layers.{}.adaln_modulation", l), size.steps);  // wide as that one
  take(final_modulation_, "final_layer.adaln_modulation", size.steps);
  return scratch.most();
}

// Keys and values come from all rows; `live_rows` are those that are still wanted behind the attention.
void DitFootprint::take_layer(nn::ScratchCount& scratch, Device device, int index, std::int64_t live_rows, const PictureSize& size) const {
  const std::int64_t mark = scratch.mark(), hidden = config_.hidden(), width = config_.intermediate, rows = size.text_rows + size.image_rows;
  const Layer& layer = layers_[std::size_t(index)];
  const auto of = [&](const nn::LinearPlan& plan, std::string_view name) { return projection(plan, size, fmt::format("layers.{}.{}", index, name)); };
  const Projection qkv = of(layer.qkv, "attention.qkv"), output = of(layer.attention_output, "attention.o");
  const Projection w13 = of(layer.w13, "feed_forward.w13"), w2 = of(layer.w2, "feed_forward.w2");
  const auto form = [&](const Projection& linear) { return linear.reads_codes() ? DType::s8 : rows_; };
  scratch.take(rows_, {rows, 3 * hidden});
  take_linear(scratch, device, qkv, rows, form(qkv));
  scratch.take(rows_, {live_rows, hidden});
  if (size.attention == AttentionKind::int8) take_attention_codes(scratch, device, config_, rows, live_rows);
  take_linear(scratch, device, output, live_rows, rows_);
  scratch.rewind(mark);
  if (!device.is_cpu() && layer.w13.has_pairs && w13.terms.empty()) {  // the product alone is written, in floats
    scratch.take(residual_, {live_rows, width});
    take_linear(scratch, device, w13, live_rows, form(w13));
    take_linear(scratch, device, w2, live_rows, residual_);
    scratch.rewind(mark);
    return;
  }
  const std::int64_t panel = mlp_panel_rows(device, live_rows);
  scratch.take(rows_, {panel, 2 * width});
  take_rows(scratch, w2.reads_codes(), residual_, panel, width);
  take_linear(scratch, device, w13, panel, form(w13));
  take_linear(scratch, device, w2, panel, w2.reads_codes() ? DType::s8 : residual_);
  scratch.rewind(mark);
}

std::int64_t DitFootprint::forward_scratch_bytes(Device device, const PictureSize& size) const {
  const std::int64_t rows = size.text_rows + size.image_rows, hidden = config_.hidden();
  nn::ScratchCount scratch;
  scratch.take(residual_, {rows, hidden});
  scratch.take(residual_, {rows, hidden});
  bool reads[2] = {};  // floats, codes
  for (int l = 0; l < config_.layers; ++l) {
    const Layer& layer = layers_[std::size_t(l)];
    reads[projection(layer.qkv, size, fmt::format("layers.{}.attention.qkv", l)).reads_codes()] = true;
    reads[projection(layer.w13, size, fmt::format("layers.{}.feed_forward.w13", l)).reads_codes()] = true;
  }
  for (const bool is_quantized : {false, true}) {
    if (reads[is_quantized]) take_rows(scratch, is_quantized, rows_, rows, hidden);
  }
  take_linear(scratch, device, projection(input_, size, "input_proj"), size.image_rows, DType::f32);
  for (int l = 0; l < config_.layers; ++l) take_layer(scratch, device, l, l + 1 == config_.layers ? size.image_rows : rows, size);
  scratch.take(DType::f32, {size.image_rows, hidden});
  take_linear(scratch, device, projection(output_, size, "final_layer.linear"), size.image_rows, DType::f32);
  return scratch.most();
}

}  // namespace octavo::ideogram4
