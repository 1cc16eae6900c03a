#include "models/flux2_vae/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "models/checkpoint.h"
#include "nn/placement.h"
#include "nn/rows.h"
#include "octavo/error.h"
#include "ops/attention/attention.h"

namespace octavo::flux2_vae {
namespace {

constexpr float kGroupNormEps = 1e-6f;  // fixed in the reference: spec section 9.1
constexpr ConvArgs kSame3x3{.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
constexpr ConvArgs kPointwise{};

// OIHW -> O, kh, kw, I; an element is moved as it is stored.
template <class Element>
void repack(ThreadPool& pool, const TensorView& from, Element* to) {
  const std::int64_t out = from.shape[0], in = from.shape[1], taps = from.shape[2] * from.shape[3];
  const auto* source = from.as<Element>();
  pool.for_each(out, [=](std::int64_t o) {
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t tap = 0; tap < taps; ++tap) to[(o * taps + tap) * in + i] = source[(o * in + i) * taps + tap];
    }
  });
}

ConvArgs conv_args(const ConvWeights& conv) { return conv.weight.shape[1] == 1 ? kPointwise : kSame3x3; }

}  // namespace

Maps::Maps(const MapTypes& types, std::int64_t largest_elements, Device device) : types_(types) {
  for (int i = 0; i < 3; ++i) buffers_.emplace_back(types.residual, Shape{largest_elements}, device, "autoencoder maps");
}

std::size_t Maps::index_of(const TensorView& map) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].as<void>() == map.data) return i;
  }
  return buffers_.size() - 1;  // nothing is current yet
}

TensorView Maps::spare_as(DType dtype, int index, std::int64_t h, std::int64_t w, std::int64_t c) const {
  const Tensor& buffer = buffers_[(index_of(current_) + 1 + std::size_t(index)) % buffers_.size()];
  if (h * w * c > buffer.shape()[0]) throw InternalError("autoencoder: a map is larger than was planned");
  return {buffer.as<void>(), dtype, {h, w, c}, buffer.view().device};
}

TensorView Maps::spare(int index, std::int64_t h, std::int64_t w, std::int64_t c) { return spare_as(types_.residual, index, h, w, c); }

TensorView Maps::bounded(int index, std::int64_t h, std::int64_t w, std::int64_t c) { return spare_as(types_.rows, index, h, w, c); }

TensorView Maps::overwrite(std::int64_t h, std::int64_t w, std::int64_t c) { return spare(2, h, w, c); }

void Maps::advance(const TensorView& map) { current_ = map; }

Network::Network(ExecContext& ctx, const WeightStore& store, const NetworkSpec& spec, const Config& config, const MapTypes& types)
    : spec_(spec), types_(types) {
  const int groups = config.norm_groups;
  if (spec.quant_conv) quant_conv_ = load_conv(ctx, store, *spec.quant_conv);
  conv_in_ = load_conv(ctx, store, spec.conv_in);
  for (const ResnetSpec& resnet : spec.middle) middle_.push_back(load_resnet(ctx, store, resnet, groups));
  if (spec.attention) {
    MidAttention attention;
    attention.norm = load_norm(ctx, store, spec.attention->norm, groups, false);
    const NumberFormat format = ctx.device.is_cpu() ? NumberFormat{} : NumberFormat{types.rows};
    attention.qkv = nn::Linear(ctx, store, {{spec.attention->to_q}, {spec.attention->to_k}, {spec.attention->to_v}}, true, format);
    attention.out = nn::Linear(ctx, store, {{spec.attention->to_out}}, true, format);
    attention.channels = spec.attention->channels;
    mapped_bytes_ += attention.qkv.mapped_bytes() + attention.out.mapped_bytes();
    attention_ = std::move(attention);
  }
  for (const StageSpec& from : spec.stages) {
    Stage stage;
    for (const ResnetSpec& resnet : from.resnets) stage.resnets.push_back(load_resnet(ctx, store, resnet, groups));
    if (from.resample) stage.resample = load_conv(ctx, store, *from.resample);
    stages_.push_back(std::move(stage));
  }
  norm_out_ = load_norm(ctx, store, spec.norm_out, groups, true);
  conv_out_ = load_conv(ctx, store, spec.conv_out);
}

ConvWeights Network::load_conv(ExecContext& ctx, const WeightStore& store, const ConvSpec& spec) {
  const std::string name = spec.module + ".weight";
  const TensorView stored = store.get(name);
  const Shape channels_last{spec.out, spec.kernel, spec.kernel, spec.in};
  ConvWeights conv;
  conv.name = spec.module;
  const std::string whole_name = fmt::format("{} '{}'", store.component(), name);
  conv.bias = nn::place(ctx, store.get(spec.module + ".bias"), owned_, name);
  mapped_bytes_ += std::int64_t(conv.bias->bytes());
  if (spec.kernel == 1) {  // both orders are the same
    conv.weight = nn::place_as(ctx, stored.reshaped(channels_last), types_.rows, owned_, whole_name);
    mapped_bytes_ += std::int64_t(stored.bytes());
    return conv;
  }
  Tensor packed(stored.dtype, channels_last, {}, name);
  if (bytes_of(stored.dtype) == 2) {
    repack(*ctx.pool, stored, packed.as<std::uint16_t>());
  } else {
    repack(*ctx.pool, stored, packed.as<std::uint32_t>());
  }
  store.release(name);
  owned_bytes_ += std::int64_t(packed.bytes());
  if (!ctx.device.is_cpu()) {
    conv.weight = nn::place_as(ctx, packed, types_.rows, owned_, whole_name);
    return conv;
  }
  conv.weight = packed;
  owned_.push_back(std::move(packed));
  return conv;
}

GroupNormArgs Network::load_norm(ExecContext& ctx, const WeightStore& store, const std::string& module, int groups, bool silu) {
  const auto vector = [&](std::string_view name) { return nn::place(ctx, store.get(module + std::string(name)), owned_, module); };
  const GroupNormArgs args{.weight = vector(".weight"), .bias = vector(".bias"), .groups = groups, .eps = kGroupNormEps, .silu = silu};
  mapped_bytes_ += std::int64_t(args.weight.bytes() + args.bias.bytes());
  return args;
}

Network::Resnet Network::load_resnet(ExecContext& ctx, const WeightStore& store, const ResnetSpec& spec, int groups) {
  Resnet resnet;
  resnet.norm1 = load_norm(ctx, store, spec.module + ".norm1", groups, true);
  resnet.conv1 = load_conv(ctx, store, {spec.module + ".conv1", spec.in, spec.out});
  resnet.norm2 = load_norm(ctx, store, spec.module + ".norm2", groups, true);
  resnet.conv2 = load_conv(ctx, store, {spec.module + ".conv2", spec.out, spec.out});
  if (!spec.shortcut.empty()) resnet.shortcut = load_conv(ctx, store, {spec.shortcut, spec.in, spec.out, 1});
  return resnet;
}

//   y = conv2(silu(norm2(conv1(silu(norm1(x)))))) + (x, or shortcut(x) if the widths differ)
void Network::run(ExecContext& ctx, const Resnet& resnet, Maps& maps) const {
  models::stop_if_cancelled(ctx, "vae");
  const TensorView x = maps.current();
  const std::int64_t h = x.shape[0], w = x.shape[1], in = x.shape[2], out = resnet.conv1.weight.shape[0];
  const TensorView normed = maps.bounded(0, h, w, in);
  const TensorView inner = maps.bounded(1, h, w, out);
  group_norm(ctx, x, resnet.norm1, normed);
  conv2d(ctx, normed, resnet.conv1, kSame3x3, std::nullopt, inner);
  group_norm(ctx, inner, resnet.norm2, inner);
  const TensorView other = maps.spare(0, h, w, out);  // `normed` is not needed any more
  if (!resnet.shortcut) {
    conv2d(ctx, inner, resnet.conv2, kSame3x3, x, other);
    return maps.advance(other);
  }
  conv2d(ctx, x, *resnet.shortcut, kPointwise, std::nullopt, other);
  const TensorView y = maps.overwrite(h, w, out);
  conv2d(ctx, inner, resnet.conv2, kSame3x3, other, y);
  maps.advance(y);
}

// x += out( attention over the h·w pixels, one head as wide as the map )
void Network::attend(ExecContext& ctx, Maps& maps) const {
  const TensorView x = maps.current();
  const std::int64_t h = x.shape[0], w = x.shape[1], c = attention_->channels;
  const auto as_rows = [](const TensorView& map) { return map.reshaped({map.shape[0] * map.shape[1], map.shape[2]}); };
  const TensorView normed = maps.bounded(0, h, w, c);
  const TensorView qkv = as_rows(maps.bounded(1, h, w, 3 * c));
  group_norm(ctx, x, attention_->norm, normed);
  attention_->qkv.forward(ctx, as_rows(normed), {}, qkv);
  const TensorView mixed = as_rows(maps.bounded(0, h, w, c));
  attention(ctx, qkv.column_range(0, c), qkv.column_range(c, c), qkv.column_range(2 * c, c),
            {.heads = 1, .kv_heads = 1, .softmax_scale = 1.0f / std::sqrt(float(c))}, mixed);
  const TensorView y = maps.spare(1, h, w, c);
  attention_->out.forward(ctx, mixed, {.activation = Activation::none, .mod_gate = {}, .residual = as_rows(x)}, as_rows(y));
  maps.advance(y);
}

void Network::run_middle(ExecContext& ctx, Maps& maps) const {
  run(ctx, middle_[0], maps);
  if (attention_) attend(ctx, maps);
  run(ctx, middle_[1], maps);
}

void Network::run_out(ExecContext& ctx, Maps& maps, const TensorView& y) const {
  models::stop_if_cancelled(ctx, "vae");
  const TensorView x = maps.current();
  const TensorView normed = maps.bounded(0, x.shape[0], x.shape[1], x.shape[2]);
  group_norm(ctx, x, norm_out_, normed);
  conv2d(ctx, normed, conv_out_, kSame3x3, std::nullopt, y);
}

std::int64_t largest_map(const NetworkSpec& spec, std::int64_t h, std::int64_t w, bool grows) {
  std::int64_t largest = h * w * std::max(spec.conv_in.in, spec.conv_in.out);
  const auto see = [&](std::int64_t channels) { largest = std::max(largest, h * w * channels); };
  const auto see_middle = [&] {
    see(spec.middle[0].out);
    if (spec.attention) see(3 * std::int64_t(spec.attention->channels));
  };
  if (grows) see_middle();
  for (const StageSpec& stage : spec.stages) {
    for (const ResnetSpec& resnet : stage.resnets) see(std::max(resnet.in, resnet.out));
    if (!stage.resample) continue;
    h = grows ? 2 * h : h / 2;
    w = grows ? 2 * w : w / 2;
    see(stage.resample->out);
  }
  if (!grows) see_middle();
  return largest;
}

Tensor Decoder::run(ExecContext& ctx, const TensorView& latent) const {
  const std::int64_t h = latent.shape[0], w = latent.shape[1], largest = largest_map(h, w, true);
  Maps maps(types(), largest, ctx.device);
  if (!ctx.device.is_cpu() && types().rows == DType::f16) {
    // Convolutions of maps wider than their weights copy them here; growing with the maps, the arena would keep the smaller blocks, too.
    constexpr std::size_t kBeside = 4096;
    const ArenaScope scope(*ctx.scratch);
    ctx.scratch->take(std::size_t(largest) * bytes_of(DType::f16) + kBeside, "maps in float16");
  }
  std::vector<Tensor> moved;
  const TensorView placed = nn::place(ctx, latent, moved, "latent");
  TensorView z = placed;
  if (quant_conv_) {
    z = maps.spare(0, h, w, latent.shape[2]);
    conv2d(ctx, placed, *quant_conv_, conv_args(*quant_conv_), std::nullopt, z);
    maps.advance(z);
  }
  const TensorView first = maps.spare(0, h, w, conv_in_.weight.shape[0]);
  conv2d(ctx, z, conv_in_, kSame3x3, std::nullopt, first);
  maps.advance(first);
  run_middle(ctx, maps);
  for (const Stage& stage : stages_) {
    for (const Resnet& resnet : stage.resnets) Network::run(ctx, resnet, maps);
    if (!stage.resample) continue;
    const TensorView x = maps.current();
    const TensorView y = maps.spare(0, 2 * x.shape[0], 2 * x.shape[1], stage.resample->weight.shape[0]);
    ConvArgs up = kSame3x3;
    up.upsample_nearest_2x = true;
    conv2d(ctx, x, *stage.resample, up, std::nullopt, y);
    maps.advance(y);
  }
  Tensor image(DType::f32, {maps.current().shape[0], maps.current().shape[1], conv_out_.weight.shape[0]}, ctx.device, "picture");
  run_out(ctx, maps, image);
  if (ctx.device.is_cpu()) return image;
  return nn::to_cpu(ctx, image, "picture");
}

Tensor Encoder::run(ExecContext& ctx, const TensorView& image) const {
  if (!ctx.device.is_cpu()) throw Unsupported("vae: the encoder runs on the CPU only in this version; use --device cpu");
  Maps maps(types(), largest_map(image.shape[0], image.shape[1], false), ctx.device);
  const TensorView first = maps.spare(0, image.shape[0], image.shape[1], conv_in_.weight.shape[0]);
  conv2d(ctx, image, conv_in_, kSame3x3, std::nullopt, first);
  maps.advance(first);
  constexpr ConvArgs kDown{.stride = 2, .pad_top = 0, .pad_left = 0, .pad_bottom = 1, .pad_right = 1};
  for (const Stage& stage : stages_) {
    for (const Resnet& resnet : stage.resnets) Network::run(ctx, resnet, maps);
    if (!stage.resample) continue;
    const TensorView x = maps.current();
    const TensorView y = maps.spare(0, x.shape[0] / 2, x.shape[1] / 2, stage.resample->weight.shape[0]);
    conv2d(ctx, x, *stage.resample, kDown, std::nullopt, y);
    maps.advance(y);
  }
  run_middle(ctx, maps);
  const std::int64_t h = maps.current().shape[0], w = maps.current().shape[1], moments_channels = conv_out_.weight.shape[0];
  Tensor moments(DType::f32, {h, w, moments_channels}, {}, "latent moments");
  run_out(ctx, maps, moments);

  // Mean and log-variance stand behind each other; only the mean is wanted, so only its rows of quant_conv are computed.
  const std::int64_t latent_channels = moments_channels / 2;
  Tensor mean(DType::f32, {h, w, latent_channels}, {}, "latent");
  if (quant_conv_) {
    ConvWeights half = *quant_conv_;
    half.weight = TensorView(half.weight.data, half.weight.dtype, {latent_channels, 1, 1, moments_channels});
    half.bias = TensorView(half.bias->data, half.bias->dtype, {latent_channels});
    conv2d(ctx, moments, half, kPointwise, std::nullopt, mean);
  } else {
    for (std::int64_t i = 0; i < h * w; ++i) {
      std::memcpy(mean.as<float>() + i * latent_channels, moments.as<float>() + i * moments_channels, std::size_t(latent_channels) * sizeof(float));
    }
  }
  return mean;
}

}  // namespace octavo::flux2_vae
