#include "models/ideogram4/footprint.h"

#include <algorithm>

#include "base/checked_math.h"
#include "models/checkpoint.h"
#include "models/ideogram4/conditioning.h"
#include "models/ideogram4/params.h"
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
    const auto linear = [&](const std::vector<nn::LinearPart>& parts) {
      const nn::LinearPlan plan = nn::plan_linear(store, parts, false, inside);
      sum += plan.memory;
      return plan;
    };
    layer.qkv = linear(names.qkv(config_, l));
    layer.attention_output = linear({{names.attention_output(l)}});
    layer.w13 = linear({{names.layer(l, "feed_forward.w1")}, {names.layer(l, "feed_forward.w3")}});
    layer.w2 = linear({{names.layer(l, "feed_forward.w2")}});
    layers_.push_back(std::move(layer));
    layer_bytes_.push_back(sum);
    constexpr int kMostTensors = 14;  // a matrix and a scale for each of seven parts
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

nn::Footprint DitFootprint::placed_features(const PictureSize& size) const {
  nn::Footprint sum;
  if (size.text_rows > 0) sum.add_tensor(DType::f32, {size.text_rows, config_.llm_features});
  return sum;
}

std::int64_t DitFootprint::prepare_scratch_bytes(const PictureSize& size) const {
  nn::ScratchCount scratch;
  if (size.text_rows > 0) {
    const std::int64_t rows = std::min(kTextRowsPerPanel, size.text_rows);
    scratch.take(DType::f32, {rows, config_.llm_features});
    text_.take_scratch(scratch, rows);
    scratch.rewind(0);
  }
  scratch.take(DType::f32, {size.steps, config_.hidden()});
  scratch.take(DType::f32, {size.steps, config_.hidden()});
  scratch.take(DType::f32, {size.steps, config_.adaln});
  for (const nn::LinearPlan* linear : {&time_in_, &time_out_, &adaln_, &final_modulation_}) linear->take_scratch(scratch, size.steps);
  return scratch.most();
}

// `rows` are the keys and values, `live_rows` those that are still wanted behind the attention.
void DitFootprint::take_layer(nn::ScratchCount& scratch, Device device, const Layer& layer, std::int64_t rows, std::int64_t live_rows,
                              AttentionKind attention) const {
  const std::int64_t mark = scratch.mark(), hidden = config_.hidden(), width = config_.intermediate;
  const bool is_wide = !device.is_cpu() && residual_ != rows_;  // what w2 reads
  scratch.take(rows_, {rows, 3 * hidden});
  if (!layer.qkv.input.is_quantized) layer.qkv.take_scratch(scratch, rows);
  scratch.take(rows_, {live_rows, hidden});
  if (attention == AttentionKind::int8) take_attention_codes(scratch, device, config_, rows, live_rows);
  layer.attention_output.take_scratch(scratch, live_rows);
  scratch.rewind(mark);
  if (!device.is_cpu() && layer.w13.input.is_quantized) {  // rows in pairs: the product alone is written, in floats
    scratch.take(residual_, {live_rows, width});
    layer.w2.take_scratch(scratch, live_rows, is_wide);
    scratch.rewind(mark);
    return;
  }
  const std::int64_t panel = mlp_panel_rows(device, live_rows);
  scratch.take(rows_, {panel, 2 * width});
  take_rows(scratch, layer.w2.input.is_quantized, residual_, panel, width);
  if (!layer.w13.input.is_quantized) layer.w13.take_scratch(scratch, panel);
  if (!layer.w2.input.is_quantized) layer.w2.take_scratch(scratch, panel, is_wide);
  scratch.rewind(mark);
}

std::int64_t DitFootprint::forward_scratch_bytes(Device device, const PictureSize& size) const {
  const std::int64_t rows = size.text_rows + size.image_rows, hidden = config_.hidden();
  nn::ScratchCount scratch;
  scratch.take(residual_, {rows, hidden});
  scratch.take(residual_, {rows, hidden});
  for (const bool is_quantized : {false, true}) {
    const bool is_read = std::any_of(layers_.begin(), layers_.end(), [&](const Layer& layer) {
      return layer.qkv.input.is_quantized == is_quantized || layer.w13.input.is_quantized == is_quantized;
    });
    if (is_read) take_rows(scratch, is_quantized, rows_, rows, hidden);
  }
  input_.take_scratch(scratch, size.image_rows);
  for (std::size_t l = 0; l < layers_.size(); ++l)
    take_layer(scratch, device, layers_[l], rows, l + 1 == layers_.size() ? size.image_rows : rows, size.attention);
  scratch.take(DType::f32, {size.image_rows, hidden});
  output_.take_scratch(scratch, size.image_rows);
  return scratch.most();
}

}  // namespace octavo::ideogram4
