#include "models/flux2_vae/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked_math.h"
#include "models/checkpoint.h"
#include "nn/placement.h"
#include "nn/rows.h"
#include "octavo/error.h"
#include "ops/attention/attention.h"

namespace octavo::flux2_vae {
namespace {

constexpr float kGroupNormEps = 1e-6f;  // fixed in the reference: spec section 9.1
constexpr ConvArgs kSame3x3{.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
constexpr ConvArgs kUpsample3x3{.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1, .upsample_nearest_2x = true};
constexpr ConvArgs kPointwise{};
constexpr std::int64_t kUnit = 128;  // elements of a map's size and place: 256 bytes at least

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

TensorView map_rows(const TensorView& map, std::int64_t first, std::int64_t count) {
  const std::size_t row_bytes = std::size_t(map.shape[1] * map.shape[2]) * bytes_of(map.dtype);
  return {static_cast<std::byte*>(map.data) + std::size_t(first) * row_bytes, map.dtype, {count, map.shape[1], map.shape[2]}, map.device};
}

auto rows_of(const TensorView& map) {
  return [map](std::int64_t first, std::int64_t count) { return map_rows(map, first, count); };
}

// Rows of a strip, an even number: as many as `strip_elements` hold.
std::int64_t strip_rows(std::int64_t h, std::int64_t w, std::int64_t channels, std::int64_t strip_elements) {
  const std::int64_t rows = strip_elements / (w * channels) / 2 * 2;
  return std::clamp<std::int64_t>(rows, std::min<std::int64_t>(2, h), h);
}

// Whether the first resnet of a growing network's stage runs as run_upsampled: in the last stage, if it makes its input narrower.
bool makes_input_twice(const NetworkSpec& spec, std::size_t stage) {
  if (stage == 0 || stage + 1 != spec.stages.size() || !spec.stages[stage - 1].resample) return false;
  const ResnetSpec& first = spec.stages[stage].resnets.front();
  return !first.shortcut.empty() && first.in > first.out;
}

ConvArgs conv_args(const ConvWeights& conv) { return conv.weight.shape[1] == 1 ? kPointwise : kSame3x3; }

}  // namespace

std::int64_t Maps::padded(std::int64_t h, std::int64_t w, std::int64_t c) { return round_up(h * w * c, kUnit); }

Maps::Maps(const MapTypes& types, const MapSizes& sizes, Device device)
    : types_(types),
      block_(types.residual, {sizes.block}, device, "autoencoder maps"),
      strips_{Tensor(types.rows, {sizes.strips[0]}, device, "autoencoder strips"), Tensor(types.residual, {sizes.strips[1]}, device, "autoencoder strips")},
      strip_elements_(sizes.strip_elements) {}

TensorView Maps::other(std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t behind) const {
  const std::int64_t size = padded(h, w, c), held = current_.data == nullptr ? 0 : padded(current_.shape[0], current_.shape[1], current_.shape[2]);
  const std::int64_t block = block_.shape()[0];
  if (behind + size + held > block) throw InternalError("autoencoder: its maps are larger than was planned");
  const std::int64_t offset = is_at_end_ ? behind : block - behind - size;
  return {block_.as<std::byte>() + std::size_t(offset) * bytes_of(block_.dtype()), block_.dtype(), {h, w, c}, block_.view().device};
}

void Maps::advance(const TensorView& map) {
  current_ = map;
  is_at_end_ = !is_at_end_;
}

TensorView Maps::strip(std::size_t index, std::int64_t h, std::int64_t w, std::int64_t c) const {
  const Tensor& strip = strips_[index];
  if (h * w * c > strip.shape()[0]) throw InternalError("autoencoder: a strip is larger than was planned");
  return {strip.as<void>(), strip.dtype(), {h, w, c}, strip.view().device};
}

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

// y = conv(silu(norm(x))) + residual, a strip of rows after the other: the normalised map never exists as a whole. y may be where the residual is.
void Network::convolve_normed(ExecContext& ctx, const Rows& x, std::int64_t channels, const GroupNormArgs& norm, const TensorView& statistics,
                              const ConvWeights& conv, const Maps& maps, const std::function<std::optional<TensorView>(std::int64_t, std::int64_t)>& residual,
                              const TensorView& y) const {
  const std::int64_t h = y.shape[0], w = y.shape[1], strip = strip_rows(h, w, channels, maps.strip_elements());
  for (std::int64_t first = 0; first < h; first += strip) {
    models::stop_if_cancelled(ctx, "vae");
    const std::int64_t end = std::min(first + strip, h), top = std::max<std::int64_t>(first - 1, 0), bottom = std::min(end + 1, h);
    const TensorView normed = maps.strip(0, bottom - top, w, channels);
    group_norm_apply(ctx, x(top, bottom - top), norm, statistics, normed);
    ConvArgs args = kSame3x3;  // rows that are there need no padding
    args.pad_top = top == first ? 1 : 0;
    args.pad_bottom = bottom == end ? 1 : 0;
    conv2d(ctx, normed, conv, args, residual(first, end - first), map_rows(y, first, end - first));
  }
}

//   y = conv2(silu(norm2(conv1(silu(norm1(x)))))) + (x, or shortcut(x) if the widths differ)
void Network::run(ExecContext& ctx, const Resnet& resnet, Maps& maps) const {
  const ArenaScope scope(*ctx.scratch);
  const TensorView x = maps.current();
  const std::int64_t h = x.shape[0], w = x.shape[1], in = x.shape[2], out = resnet.conv1.weight.shape[0];
  const TensorView y = resnet.shortcut ? maps.other(h, w, out) : x;
  const TensorView inner = maps.bounded(maps.other(h, w, out, resnet.shortcut ? Maps::padded(h, w, out) : 0));
  const TensorView statistics = nn::scratch_tensor(ctx, DType::f32, {resnet.norm1.groups, 2}, "group statistics");
  const auto nothing = [](std::int64_t, std::int64_t) { return std::nullopt; };
  group_norm_statistics(ctx, x, resnet.norm1, statistics);
  convolve_normed(ctx, rows_of(x), in, resnet.norm1, statistics, resnet.conv1, maps, nothing, inner);
  if (resnet.shortcut) conv2d(ctx, x, *resnet.shortcut, kPointwise, std::nullopt, y);
  group_norm_statistics(ctx, inner, resnet.norm2, statistics);
  convolve_normed(ctx, rows_of(inner), out, resnet.norm2, statistics, resnet.conv2, maps, rows_of(y), y);
  if (resnet.shortcut) maps.advance(y);
}

// The same behind the last upsampling, where x is the largest map by far: it is made for its statistics, and its rows are made once more, strip by strip, where
// they are read. So inner and y take its place.
void Network::run_upsampled(ExecContext& ctx, const ConvWeights& upsample, const Resnet& resnet, Maps& maps) const {
  const ArenaScope scope(*ctx.scratch);
  const TensorView small = maps.current();
  const std::int64_t h = 2 * small.shape[0], w = 2 * small.shape[1], in = upsample.weight.shape[0], out = resnet.conv1.weight.shape[0];
  const TensorView statistics = nn::scratch_tensor(ctx, DType::f32, {resnet.norm1.groups, 2}, "group statistics");
  const auto nothing = [](std::int64_t, std::int64_t) { return std::nullopt; };
  const TensorView x = maps.other(h, w, in);
  conv2d(ctx, small, upsample, kUpsample3x3, std::nullopt, x);
  group_norm_statistics(ctx, x, resnet.norm1, statistics);
  const TensorView y = maps.other(h, w, out), inner = maps.bounded(maps.other(h, w, out, Maps::padded(h, w, out)));
  // Strips are even, so a strip with its two neighbouring rows begins at an odd row, unless at the edge: in the middle of what row top / 2 becomes.
  const Rows x_rows = [&](std::int64_t top, std::int64_t count) {
    const std::int64_t bottom = top + count, from = top / 2, to = std::min((bottom + 1) / 2, small.shape[0]);
    const TensorView rows = maps.strip(1, count, w, in);
    ConvArgs args = kUpsample3x3;
    args.pad_top = top == 0 ? 1 : 0;
    args.pad_bottom = bottom == h ? 1 : 0;
    conv2d(ctx, map_rows(small, from, to - from), upsample, args, std::nullopt, rows);
    const std::int64_t first = top == 0 ? 0 : top + 1, end = bottom == h ? h : bottom - 1;  // those that no other strip has
    conv2d(ctx, map_rows(rows, first - top, end - first), *resnet.shortcut, kPointwise, std::nullopt, map_rows(y, first, end - first));
    return rows;
  };
  convolve_normed(ctx, x_rows, in, resnet.norm1, statistics, resnet.conv1, maps, nothing, inner);
  group_norm_statistics(ctx, inner, resnet.norm2, statistics);
  convolve_normed(ctx, rows_of(inner), out, resnet.norm2, statistics, resnet.conv2, maps, rows_of(y), y);
  maps.advance(y);
}

// x += out( attention over the h·w pixels, one head as wide as the map )
void Network::attend(ExecContext& ctx, Maps& maps) const {
  const TensorView x = maps.current();
  const std::int64_t h = x.shape[0], w = x.shape[1], c = attention_->channels;
  const auto as_rows = [](const TensorView& map) { return map.reshaped({map.shape[0] * map.shape[1], map.shape[2]}); };
  const TensorView qkv = as_rows(maps.bounded(maps.other(h, w, 3 * c)));
  const TensorView normed = maps.bounded(maps.other(h, w, c, Maps::padded(h, w, 3 * c)));
  group_norm(ctx, x, attention_->norm, normed);
  attention_->qkv.forward(ctx, as_rows(normed), {}, qkv);
  const TensorView mixed = as_rows(normed);  // which is not needed any more
  attention(ctx, qkv.column_range(0, c), qkv.column_range(c, c), qkv.column_range(2 * c, c),
            {.heads = 1, .kv_heads = 1, .softmax_scale = 1.0f / std::sqrt(float(c))}, mixed);
  const TensorView y = maps.other(h, w, c);  // nor is qkv
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
  if (types_.rows != types_.residual) {  // the normalised map does not fit its place
    const ArenaScope scope(*ctx.scratch);
    const TensorView statistics = nn::scratch_tensor(ctx, DType::f32, {norm_out_.groups, 2}, "group statistics");
    group_norm_statistics(ctx, x, norm_out_, statistics);
    return convolve_normed(ctx, rows_of(x), x.shape[2], norm_out_, statistics, conv_out_, maps, [](std::int64_t, std::int64_t) { return std::nullopt; }, y);
  }
  group_norm(ctx, x, norm_out_, x);
  conv2d(ctx, x, conv_out_, kSame3x3, std::nullopt, y);
}

MapSizes map_sizes(const NetworkSpec& spec, std::int64_t h, std::int64_t w, bool grows, std::int64_t strip_elements) {
  MapSizes sizes{.strip_elements = strip_elements};
  std::int64_t current = 0;
  const auto size = [&](std::int64_t channels) { return Maps::padded(h, w, channels); };
  const auto read = [&](std::int64_t channels) { sizes.read = std::max(sizes.read, h * w * channels); };
  const auto beside = [&](std::int64_t others) { sizes.block = std::max(sizes.block, current + others); };
  const auto become = [&](std::int64_t channels) {
    beside(size(channels));
    current = size(channels);
  };
  const auto strip = [&](std::size_t index, std::int64_t channels) {
    const std::int64_t rows = std::min(h, strip_rows(h, w, channels, strip_elements) + 2);
    sizes.strips[index] = std::max(sizes.strips[index], rows * w * channels);
  };
  const auto resnet = [&](const ResnetSpec& r) {
    strip(0, r.in);
    strip(0, r.out);
    if (!r.shortcut.empty()) read(r.in);
    beside(size(r.out) * (r.shortcut.empty() ? 1 : 2));
    current = size(r.out);
  };
  const auto middle = [&] {
    resnet(spec.middle[0]);
    if (spec.attention) {
      beside(size(3 * std::int64_t(spec.attention->channels)) + size(spec.attention->channels));
      become(spec.attention->channels);
    }
    resnet(spec.middle[1]);
  };
  read(spec.conv_in.in);
  if (grows && spec.quant_conv) become(spec.quant_conv->out);
  become(spec.conv_in.out);
  if (grows) middle();
  for (std::size_t s = 0; s < spec.stages.size(); ++s) {
    const StageSpec& stage = spec.stages[s];
    for (std::size_t j = 0; j < stage.resnets.size(); ++j) {
      const ResnetSpec& r = stage.resnets[j];
      if (!grows || j > 0 || !makes_input_twice(spec, s)) {
        resnet(r);
        continue;
      }
      h *= 2;
      w *= 2;
      beside(std::max(size(r.in), 2 * size(r.out)));
      current = size(r.out);
      strip(0, r.in);
      strip(0, r.out);
      strip(1, r.in);
      sizes.read = std::max(sizes.read, sizes.strips[1]);
    }
    if (stage.resample) read(stage.resample->in);
    if (!stage.resample || (grows && makes_input_twice(spec, s + 1))) continue;
    h = grows ? 2 * h : h / 2;
    w = grows ? 2 * w : w / 2;
    become(stage.resample->out);
  }
  if (!grows) middle();
  return sizes;
}

Tensor Decoder::run(ExecContext& ctx, const TensorView& latent, std::int64_t strip_elements) const {
  const std::int64_t h = latent.shape[0], w = latent.shape[1];
  const MapSizes sizes = map_sizes(spec(), h, w, true, strip_elements);
  Maps maps(types(), sizes, ctx.device);
  if (!ctx.device.is_cpu() && types().rows == DType::f16) {
    // Convolutions of maps wider than their weights copy them here; growing with the maps, the arena would keep the smaller blocks, too.
    constexpr std::size_t kBeside = 4096;
    const ArenaScope scope(*ctx.scratch);
    ctx.scratch->take(std::size_t(sizes.read) * bytes_of(DType::f16) + kBeside, "maps in float16");
  }
  std::vector<Tensor> moved;
  const TensorView placed = nn::place(ctx, latent, moved, "latent");
  TensorView z = placed;
  if (quant_conv_) {
    z = maps.other(h, w, quant_conv_->weight.shape[0]);
    conv2d(ctx, placed, *quant_conv_, conv_args(*quant_conv_), std::nullopt, z);
    maps.advance(z);
  }
  const TensorView first = maps.other(h, w, conv_in_.weight.shape[0]);
  conv2d(ctx, z, conv_in_, kSame3x3, std::nullopt, first);
  maps.advance(first);
  run_middle(ctx, maps);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (std::size_t j = 0; j < stages_[s].resnets.size(); ++j) {
      const Resnet& resnet = stages_[s].resnets[j];
      j == 0 && makes_input_twice(spec(), s) ? run_upsampled(ctx, *stages_[s - 1].resample, resnet, maps) : Network::run(ctx, resnet, maps);
    }
    if (!stages_[s].resample || makes_input_twice(spec(), s + 1)) continue;
    const TensorView x = maps.current();
    const TensorView y = maps.other(2 * x.shape[0], 2 * x.shape[1], stages_[s].resample->weight.shape[0]);
    conv2d(ctx, x, *stages_[s].resample, kUpsample3x3, std::nullopt, y);
    maps.advance(y);
  }
  Tensor image(DType::f32, {maps.current().shape[0], maps.current().shape[1], conv_out_.weight.shape[0]}, ctx.device, "picture");
  run_out(ctx, maps, image);
  if (ctx.device.is_cpu()) return image;
  return nn::to_cpu(ctx, image, "picture");
}

Tensor Encoder::run(ExecContext& ctx, const TensorView& image) const {
  if (!ctx.device.is_cpu()) throw Unsupported("vae: the encoder runs on the CPU only in this version; use --device cpu");
  Maps maps(types(), map_sizes(spec(), image.shape[0], image.shape[1], false, kStripElements), ctx.device);
  const TensorView first = maps.other(image.shape[0], image.shape[1], conv_in_.weight.shape[0]);
  conv2d(ctx, image, conv_in_, kSame3x3, std::nullopt, first);
  maps.advance(first);
  constexpr ConvArgs kDown{.stride = 2, .pad_top = 0, .pad_left = 0, .pad_bottom = 1, .pad_right = 1};
  for (const Stage& stage : stages_) {
    for (const Resnet& resnet : stage.resnets) Network::run(ctx, resnet, maps);
    if (!stage.resample) continue;
    const TensorView x = maps.current();
    const TensorView y = maps.other(x.shape[0] / 2, x.shape[1] / 2, stage.resample->weight.shape[0]);
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
