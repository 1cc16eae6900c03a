#include "pipeline/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/build.h"
#include "base/files.h"
#include "cpu/isa.h"
#include "device/counters.h"
#include "io/safetensors.h"
#include "models/flux2_vae/vae.h"
#include "models/ideogram4/dit.h"
#include "models/ideogram4/params.h"
#include "models/qwen3_vl/text_encoder.h"
#include "nn/block_stream.h"
#include "nn/placement.h"
#include "octavo/error.h"
#include "ops/attention/attention_choice.h"
#include "ops/guided_step/guided_step.h"
#include "ops/linear/linear_cublaslt.h"
#include "pipeline/dump.h"
#include "pipeline/loras.h"
#include "pipeline/memory.h"
#include "pipeline/metadata.h"
#include "pipeline/model_index.h"
#include "pipeline/model_memory.h"
#include "pipeline/noise.h"
#include "pipeline/pixels.h"
#include "pipeline/side_stream.h"
#include "text/tokenizer.h"
#include "weights/weight_store.h"

namespace octavo {
namespace {

constexpr int kMaxTextTokens = 2048;  // spec section 7, the chat template included

// Where one step of one picture finds its numbers.
struct StepBuffers {
  Tensor latents;  // f32 [L, C]
  Tensor velocity_cond;
  Tensor velocity_uncond;
};

void stop_if_asked(Observer& observer) {
  if (observer.cancelled()) throw Cancelled("generate: stopped as asked; no unfinished picture was written");
}

void copy_tensor(const ExecContext& ctx, const TensorView& from, const TensorView& to) {
  copy_bytes(to.data, to.device, from.data, from.device, from.bytes(), ctx.stream);
}

// `where` gave numbers that are not finite, and what is multiplied is float16: its range is suspected before anything else.
void blame_float16(const Precision& precision, const std::string& where) {
  if (precision.rows != DType::f16) return;
  throw InvalidArgument(fmt::format(
      "generate: --precision {}: {} gave numbers that are not finite; float16 ends at 65504: use --precision bf16 or f32, which say more if it is not that",
      precision.name, where));
}

// `where` gave numbers that are not finite. Throws InvalidArgument that names the request's LoRAs, if one acts: what they do to the model is suspected before
// its weights are, and leaving them out shows which it was.
void blame_loras(const Request& request, const std::string& where) {
  std::vector<std::string> names;
  for (const LoraSource& lora : request.loras) {
    if (lora.strength != 0) names.push_back(fmt::format("'{}' with strength {}", lora.path, lora.strength));
  }
  if (names.empty()) return;
  throw InvalidArgument(fmt::format("generate: --lora {}: {} gave numbers that are not finite; use a smaller strength (0.5 to 1 are usual), or leave {} out",
                                    fmt::join(names, ", "), where, names.size() == 1 ? "it" : "them one by one"));
}

qwen3_vl::TextResidency text_residency(const std::optional<ResidencyPlan>& residency) {
  return !residency || residency->keeps_text_whole ? qwen3_vl::TextResidency::whole : qwen3_vl::TextResidency::one_layer;
}

// Start tensors from a file, f32 [P, L, C] with P = 1 (the same for every picture) or P = batch.
Tensor read_noise(const NoiseSource& source, int batch, std::int64_t tokens, std::int64_t channels) {
  const SafetensorsFile file(source.path);
  const std::string who = fmt::format("noise '{}:{}'", source.path, source.tensor);
  const SafetensorsEntry* entry = file.find(source.tensor);
  if (entry == nullptr) {
    std::string names;
    for (const SafetensorsEntry& other : file.entries().first(std::min<std::size_t>(file.entries().size(), 8)))
      names += (names.empty() ? "" : ", ") + other.name;
    throw InvalidArgument(fmt::format("{}: the file has no such tensor; it has {} tensors: {}", who, file.entries().size(), names));
  }
  if (entry->dtype != DType::f32) throw InvalidArgument(fmt::format("{}: is {}, must be F32", who, entry->dtype_name));
  const Shape& shape = entry->shape;
  const bool is_batch = shape.rank() == 3 && (shape[0] == 1 || shape[0] == batch);
  if ((shape.rank() != 2 && !is_batch) || shape[-2] != tokens || shape[-1] != channels) {
    throw InvalidArgument(fmt::format("{}: has shape {}; this request needs [{}, {}], [1, {}, {}] or [{}, {}, {}] (batch, image tokens, channels)", who,
                                      shape.text(), tokens, channels, tokens, channels, batch, tokens, channels));
  }
  Tensor noise = to_float_tensor(file.tensor(source.tensor).reshaped(Shape{shape.rank() == 3 ? shape[0] : 1, tokens, channels}));
  if (!all_finite(noise)) throw InvalidArgument(fmt::format("{}: holds a number that is not finite", who));
  return noise;
}

}  // namespace

struct Pipeline::Impl {
  PipelineOptions options;
  ModelIndex index;
  qwen3_vl::Config text_config;
  ideogram4::Config cond_config, uncond_config;
  flux2_vae::Config vae_config;
  Tokenizer tokenizer;
  ThreadPool pool;
  Arena scratch;
  Stream stream;
  mutable std::optional<ModelMemory> memory;          // read when the first budget is kept
  std::optional<ResidencyChoice> loaded;              // how the denoisers lie on the device
  std::optional<SideStream> side;                     // for the second branch, where the budget has room for its scratch
  std::unique_ptr<nn::BlockStream> streamed;          // outlives the denoisers
  std::optional<qwen3_vl::TextEncoder> text_encoder;  // present only until its work is done: its pages then leave memory
  std::optional<ideogram4::Dit> cond, uncond;
  std::optional<flux2_vae::Vae> vae;

  bool names_attention = false;  // somebody asked for one: where auto means another, the command that draws the same again must say it

  explicit Impl(const PipelineOptions& given)
      : options(on_device(given)),
        index(ModelIndex::read(given.model)),
        text_config(qwen3_vl::Config::read(index.component("text_encoder"))),
        cond_config(ideogram4::Config::read(index.component("transformer"))),
        uncond_config(ideogram4::Config::read(index.component("unconditional_transformer"))),
        vae_config(flux2_vae::Config::read(index.component("vae"))),
        tokenizer(index.component("tokenizer")),
        pool(given.threads),
        scratch(given.device),
        stream(given.device) {
    check_components();
    names_attention = given.attention != AttentionKind::automatic;
    options.attention = settled_attention(options.attention, options.precision, is_cpu() ? 0 : caps_of(options.device).sm, cond_config.head_dim);
  }

  static PipelineOptions on_device(PipelineOptions options) {
    if (!options.device.is_cpu()) options.precision = precision::on_gpu(options.precision, caps_of(options.device).sm);
    return options;
  }
  bool is_cpu() const { return options.device.is_cpu(); }
  ExecContext context(Observer& observer) {
    return {.device = options.device,
            .pool = &pool,
            .scratch = &scratch,
            .stream = is_cpu() ? nullptr : &stream,
            .observer = &observer,
            .reference = options.cpu_reference,
            .attention = options.attention,
            .draws_weights = options.draws_weights};
  }
  // What everything but the block linears computes in: w8a8 is a matter of the denoisers alone (numerics.md section 10).
  Precision plain_precision() const {
    if (!is_cpu()) return precision::plain_on_gpu(options.precision, caps_of(options.device).sm);
    return options.precision.weight.is_quantized() ? precision::f32 : options.precision;
  }
  // On a GPU without bf16 tensor cores: what that means for this recipe.
  void advise_half(Observer& observer) const {
    const DeviceCaps& caps = caps_of(options.device);
    if (precision::has_bf16(caps.sm)) return;
    const std::string gpu = fmt::format("{} (sm_{}) has no bf16 tensor cores", caps.name, caps.sm);
    if (options.precision.rows == DType::bf16) {
      observer.on_advisory(fmt::format("generate: {}: --precision bf16 multiplies floats without tensor cores, slowly; fp16 and w8a8 use them", gpu));
    } else if (options.precision.weight.is_quantized()) {
      observer.on_advisory(fmt::format("generate: {}: {} multiplies its floats (attention, text encoder, decoder) in fp16", gpu, options.precision.name));
    }
  }
  std::string kernels() const {
    if constexpr (build::has_cuda) {
      // Floats outside the denoisers' int8 products go through cuBLASLt where it is found, and its sums are its own (numerics.md section 8).
      if (!is_cpu()) {
        const int sm = caps_of(options.device).sm;
        const bool uses_half = options.precision.weight.is_quantized() && !precision::has_bf16(sm);
        return fmt::format("sm_{}{}{}", sm, uses_half ? ", floats in fp16" : "", cublaslt_missing().empty() ? ", cuBLASLt" : "");
      }
    }
    return options.cpu_reference ? "reference" : std::string(cpu::name_of(cpu::active_isa()));
  }
  int token_pixels() const { return vae_config.scale() * vae_config.patch; }
  Origin origin() const {
    return {.model = options.model_name,
            .precision = std::string(options.precision.name),
            .device = is_cpu() ? "cpu" : "cuda",
            .gpu = is_cpu() ? "" : caps_of(options.device).name,
            .kernels = kernels(),
            .cpu_reference = options.cpu_reference,
            .attention = options.attention == AttentionKind::int8 ? "int8"
                         : names_attention                        ? "bf16"
                                                                  : ""};
  }

  void check_components() const;
  bool keeps_budget() const { return !is_cpu() || options.vram_bytes.has_value(); }
  std::optional<ResidencyPlan> residency(const RequestPlan& plan, std::int64_t text_tokens, const RequestLoras& loras) const;
  std::int64_t budget() const;
  void forget_denoisers();
  void reserve_scratch(std::int64_t bytes);
  void give_room(ExecContext& ctx);
  void open_side(const std::optional<ResidencyPlan>& residency);
  MemoryQuestion memory_question(const RequestPlan& plan, std::int64_t text_tokens) const;
  std::vector<std::int32_t> tokenize(const std::string& prompt) const;
  void load(Observer& observer, const std::optional<ResidencyPlan>& residency);
  Tensor encode(Observer& observer, std::span<const std::int32_t> ids, const std::optional<ResidencyPlan>& residency);
  void denoise(ExecContext& ctx, const RequestPlan& plan, const ideogram4::Session& cond_session, const ideogram4::Session* uncond_session, int picture,
               StepBuffers& buffers, Dump* dump);
  void check_step(const Request& request, const StepBuffers& buffers, int step, bool has_uncond) const;
  Image decode(ExecContext& ctx, const RequestPlan& plan, const TensorView& latents, int picture, Dump* dump);
};

void Pipeline::Impl::check_components() const {
  const std::string who = fmt::format("model '{}'", options.model.string());
  const int features = text_config.hidden * int(index.taps.size());
  if (index.taps.back() >= text_config.layers) {
    throw DataError(fmt::format("{}: text_encoder_taps asks for layer {} but text_encoder/config.json has {} layers; the parts belong to different models", who,
                                index.taps.back(), text_config.layers));
  }
  if (cond_config.llm_features != features) {
    throw DataError(fmt::format(
        "{}: transformer/config.json expects {} text features but the text encoder gives {} (hidden {} x {} taps); the parts belong to different models", who,
        cond_config.llm_features, features, text_config.hidden, index.taps.size()));
  }
  // One branch may be smaller than the other, but both were trained on the same text features and positions; a stranger would draw noise without a word.
  const auto must_agree = [&](const char* key, const auto& cond_value, const auto& uncond_value) {
    if (cond_value == uncond_value) return;
    throw DataError(fmt::format("{}: transformer/config.json has {} {} but unconditional_transformer/config.json has {}; the parts belong to different models",
                                who, key, cond_value, uncond_value));
  };
  must_agree("attention_head_dim", cond_config.head_dim, uncond_config.head_dim);
  must_agree("llm_features_dim", cond_config.llm_features, uncond_config.llm_features);
  must_agree("rope_theta", cond_config.rope_theta, uncond_config.rope_theta);
  must_agree("mrope_section", fmt::format("[{}]", fmt::join(cond_config.mrope_section, ", ")),
             fmt::format("[{}]", fmt::join(uncond_config.mrope_section, ", ")));
  for (const auto& [name, config] : {std::pair{"transformer", &cond_config}, std::pair{"unconditional_transformer", &uncond_config}}) {
    if (config->in_channels != vae_config.token_channels()) {
      throw DataError(fmt::format(
          "{}: {}/config.json has {} in_channels but the vae makes {} ({} latent channels in patches of {}x{}); the parts belong to different models", who,
          name, config->in_channels, vae_config.token_channels(), vae_config.latent_channels, vae_config.patch, vae_config.patch));
    }
  }
}

MemoryQuestion Pipeline::Impl::memory_question(const RequestPlan& plan, std::int64_t text_tokens) const {
  MemoryQuestion question{.text_tokens = double(text_tokens),
                          .text_hidden = double(text_config.hidden),
                          .text_intermediate = double(text_config.intermediate),
                          .text_features = double(cond_config.llm_features),
                          .image_tokens = double(plan.image_tokens()),
                          .channels = double(cond_config.in_channels),
                          .hidden = double(cond_config.hidden()),
                          .intermediate = double(cond_config.intermediate),
                          .layers = double(cond_config.layers),
                          .head_dim = double(cond_config.head_dim),
                          .pixels = double(*plan.request.width) * double(*plan.request.height),
                          .decoder_channels = decoder_channels_of(vae_config.block_channels),
                          .steps = double(*plan.request.steps),
                          .batch = double(plan.request.batch),
                          .keeps_dump = plan.request.dump_path.has_value()};
  const NumberFormat& format = options.precision.weight;
  if (format.storage == DType::f32 || cond) return question;
  for (const auto& [name, config] : {std::pair{"transformer", &cond_config}, std::pair{"unconditional_transformer", &uncond_config}}) {
    const WeightStore store(index.component(name), name);
    const double weights = double(config->layers) * config->hidden() * (4.0 * config->hidden() + 3.0 * config->intermediate);
    if (!format.is_quantized()) {
      const StoredLinear& stored = store.linear(ideogram4::Names::find(store).attention_output(0));
      if (stored.format == LinearFormat::plain && stored.dtype != format.storage) question.copied_weights_bytes += weights * double(bytes_of(format.storage));
    } else if (!store.has_int8()) {                                        // else used as stored, without a copy
      const bool is_4_bit = format.granularity == Granularity::per_group;  // and a float32 scale per group
      question.copied_weights_bytes += weights * (is_4_bit ? 0.5 + 4.0 / format.group : 1.0);
    }
  }
  return question;
}

std::vector<std::int32_t> Pipeline::Impl::tokenize(const std::string& prompt) const {
  std::vector<std::int32_t> ids = tokenizer.encode(chat_prompt(prompt));
  if (ids.size() > kMaxTextTokens) {
    throw InvalidArgument(fmt::format("generate: the prompt has {} tokens with the chat template, at most {} are allowed; shorten it by {}", ids.size(),
                                      kMaxTextTokens, ids.size() - kMaxTextTokens));
  }
  return ids;
}

// With a budget given: that, or what is there if that is less. Else what is free, and what the loaded parts take of it already.
std::int64_t Pipeline::Impl::budget() const {
  if (is_cpu()) return options.vram_bytes.value_or(0);
  const std::int64_t there = free_budget(options.device) + memory_count(options.device).now;
  return options.vram_bytes ? std::min(*options.vram_bytes, there) : there;
}

std::optional<ResidencyPlan> Pipeline::Impl::residency(const RequestPlan& plan, std::int64_t text_tokens, const RequestLoras& loras) const {
  if (!keeps_budget()) return std::nullopt;
  if (!memory) memory.emplace(index, options.precision, plain_precision(), options.device);
  const PictureMemory picture{.width = *plan.request.width,
                              .height = *plan.request.height,
                              .steps = *plan.request.steps,
                              .text_tokens = text_tokens,
                              .attention = options.attention,
                              .cond_lora = loras.conditional(),
                              .uncond_lora = loras.unconditional()};
  return memory->plan("generate", picture, budget(), cond ? loaded : std::nullopt);
}

void Pipeline::Impl::forget_denoisers() {
  cond.reset();
  uncond.reset();
  vae.reset();
  streamed.reset();
  loaded.reset();
  scratch = Arena(options.device);
  side.reset();
}

// One block for everything that is taken until the end. A larger one of an earlier request does as well, unless a budget was given: the plan counts this one.
void Pipeline::Impl::reserve_scratch(std::int64_t bytes) {
  const auto held = std::int64_t(scratch.peak_bytes());
  if (held < bytes || (options.vram_bytes && held > bytes)) scratch = Arena(options.device);
  const ArenaScope scope(scratch);
  scratch.take(std::size_t(bytes), "scratch");
}

// What only the denoisers use leaves.
void Pipeline::Impl::open_side(const std::optional<ResidencyPlan>& residency) {
  side.reset();
  if (!is_cpu() && residency && residency->runs_beside) side.emplace(options.device, residency->scratch_bytes);
}

void Pipeline::Impl::give_room(ExecContext& ctx) {
  stream.synchronize();
  if (streamed) streamed->suspend(ctx);
  scratch = Arena(options.device);
}

void Pipeline::Impl::load(Observer& observer, const std::optional<ResidencyPlan>& residency) {
  const ResidencyChoice choice = residency ? residency->choice : ResidencyChoice{};
  if (cond && uncond && vae && loaded == choice) return;
  forget_denoisers();  // loaded for another kind of request
  if (!is_cpu()) advise_half(observer);
  constexpr int kParts = 4;
  ExecContext ctx = context(observer);
  const auto part_done = [&](int part) {
    observer.on_progress("load", 0, part, kParts);
    stop_if_asked(observer);
  };
  part_done(0);
  // A text encoder that is kept whole fits beside everything else; one that is not takes no memory before its turn.
  text_encoder.emplace(ctx, index.component("text_encoder"), index.taps, plain_precision(), text_residency(residency));
  part_done(1);
  if (choice.streams()) streamed = std::make_unique<nn::BlockStream>(options.device);
  const auto where = [&](int layers) {
    return ideogram4::DitResidency{.stream = streamed.get(), .streamed_layers = layers, .keeps_conditioning = choice.keeps_conditioning};
  };
  cond.emplace(ctx, index.component("transformer"), "transformer", options.precision, where(choice.cond_streamed));
  part_done(2);
  uncond.emplace(ctx, index.component("unconditional_transformer"), "unconditional_transformer", options.precision, where(choice.uncond_streamed));
  part_done(3);
  vae.emplace(ctx, index.component("vae"), plain_precision());
  loaded = choice;
  part_done(4);
}

Tensor Pipeline::Impl::encode(Observer& observer, std::span<const std::int32_t> ids, const std::optional<ResidencyPlan>& residency) {
  ExecContext ctx = context(observer);
  observer.on_progress("encode", 0, 0, 1);
  if (!text_encoder) text_encoder.emplace(ctx, index.component("text_encoder"), index.taps, plain_precision(), text_residency(residency));
  Tensor features = text_encoder->encode(ctx, ids);
  text_encoder.reset();
  observer.on_progress("encode", 0, 1, 1);
  return features;
}

// `buffers` on the CPU.
void Pipeline::Impl::check_step(const Request& request, const StepBuffers& buffers, int step, bool has_uncond) const {
  if (all_finite(buffers.latents)) return;
  const int steps = *request.steps;
  const float guidance = request.guidance[std::size_t(step)];
  const std::string where = fmt::format("step {} of {} (guidance {})", step + 1, steps, guidance);
  blame_float16(options.precision, where);
  blame_loras(request, where);
  if (all_finite(buffers.velocity_cond) && (!has_uncond || all_finite(buffers.velocity_uncond))) {
    throw InvalidArgument(fmt::format("generate: --guidance {} drives step {} of {} past the range of float32; 1 to 10 are usual", guidance, step + 1, steps));
  }
  throw DataError(
      fmt::format("generate: step {} of {} gave numbers that are not finite (guidance {}); the weights are probably damaged", step + 1, steps, guidance));
}

void Pipeline::Impl::denoise(ExecContext& ctx, const RequestPlan& plan, const ideogram4::Session& cond_session, const ideogram4::Session* uncond_session,
                             int picture, StepBuffers& buffers, Dump* dump) {
  const int steps = *plan.request.steps;
  const Schedule& schedule = plan.schedule;
  ctx.observer->on_progress("denoise", picture, 0, steps);
  for (int step = 0; step < steps; ++step) {
    stop_if_asked(*ctx.observer);
    const float guidance = plan.request.guidance[std::size_t(step)];
    const bool needs_uncond = uncond_session != nullptr && (guidance != 1.0f || dump != nullptr);
    const auto unconditional = [&](ExecContext& where) { uncond->forward(where, *uncond_session, step, buffers.latents, buffers.velocity_uncond); };
    if (needs_uncond && side) side->start(ctx, unconditional);
    cond->forward(ctx, cond_session, step, buffers.latents, buffers.velocity_cond);
    if (needs_uncond) side ? side->join(ctx) : unconditional(ctx);

    const float step_length = schedule.sigmas[std::size_t(step)] - schedule.sigmas[std::size_t(step) + 1];
    const auto uncond_velocity = guidance != 1.0f ? std::optional<TensorView>(buffers.velocity_uncond) : std::nullopt;
    guided_step(ctx, buffers.latents, buffers.velocity_cond, uncond_velocity, guidance, step_length);
    if (is_cpu()) check_step(plan.request, buffers, step, needs_uncond);
    if (dump != nullptr) {
      copy_tensor(ctx, buffers.velocity_cond, dump->velocity_cond(step, picture));
      copy_tensor(ctx, buffers.velocity_uncond, dump->velocity_uncond(step, picture));
      copy_tensor(ctx, buffers.latents, dump->latents(step, picture));
    }
    if (!is_cpu()) stream.synchronize();  // between steps: progress that people see is true, and a stop takes effect within one step
    ctx.observer->on_progress("denoise", picture, step + 1, steps);
  }
}

Image Pipeline::Impl::decode(ExecContext& ctx, const RequestPlan& plan, const TensorView& latents, int picture, Dump* dump) {
  stop_if_asked(*ctx.observer);
  ctx.observer->on_progress("decode", picture, 0, 1);
  const Tensor tokens = nn::to_cpu(ctx, latents, "latents");
  if (!all_finite(tokens)) {
    blame_float16(options.precision, fmt::format("{} steps", *plan.request.steps));
    blame_loras(plan.request, fmt::format("{} steps", *plan.request.steps));
    throw DataError(fmt::format("generate: {} steps with guidance up to {} gave numbers that are not finite; try --guidance 3, else the weights are damaged",
                                *plan.request.steps, *std::max_element(plan.request.guidance.begin(), plan.request.guidance.end())));
  }
  vae->denormalize(ctx, tokens);
  const Tensor decoded = vae->decode(ctx, vae->unpatchify(tokens, plan.grid_height, plan.grid_width));
  if (!all_finite(decoded)) {
    blame_float16(options.precision, "the decoder");
    blame_loras(plan.request, "the decoder");
    throw DataError("generate: the decoder gave numbers that are not finite; the weights of the vae are probably damaged");
  }
  if (dump != nullptr) to_unit_range(decoded, dump->image(picture));

  Image image;
  image.width = *plan.request.width;
  image.height = *plan.request.height;
  image.rgb = to_bytes(decoded);
  image.seed = plan.request.seed + std::uint64_t(picture);
  image.metadata = picture_metadata(plan.request, origin(), image.seed);
  ctx.observer->on_progress("decode", picture, 1, 1);
  return image;
}

Pipeline::Pipeline(const PipelineOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;

RequestPlan Pipeline::plan(const Request& request) const { return plan_request(request, impl_->index.defaults, impl_->token_pixels()); }

std::optional<ResidencyPlan> Pipeline::residency(const RequestPlan& plan, std::int64_t text_tokens) const {
  Observer silent;
  return impl_->residency(plan, text_tokens, RequestLoras(plan.request.loras, impl_->index, silent));
}

std::int64_t Pipeline::streamed_bytes() const { return impl_->streamed ? impl_->streamed->copied_bytes() : 0; }

void Pipeline::load(Observer& observer) { impl_->load(observer, residency(plan({}), kMaxTextTokens)); }

std::vector<Image> Pipeline::run(const RequestPlan& plan, Observer& observer, const std::function<void(const Image&)>& finished) {
  Impl& self = *impl_;
  const Request& request = plan.request;
  const std::int64_t tokens = plan.image_tokens();
  const std::int64_t channels = self.cond_config.in_channels;

  // Everything that can be wrong with the request comes before the first weight is read.
  const std::vector<std::int32_t> ids = self.tokenize(request.prompt);
  std::optional<Tensor> given_noise;
  if (request.noise) given_noise = read_noise(*request.noise, request.batch, tokens, channels);
  const RequestLoras loras(request.loras, self.index, observer);  // windows that the sessions below look through
  const std::optional<ResidencyPlan> residency = self.residency(plan, std::int64_t(ids.size()), loras);
  if (self.is_cpu()) require_memory(estimate_memory(self.memory_question(plan, std::int64_t(ids.size()))), available_memory());
  if (residency && !self.streamed) require_memory({{"page-locked copies of streamed layers", double(residency->streamed_bytes)}}, available_memory());
  std::optional<Dump> dump;
  if (request.dump_path) {
    const AtomicFile probe(*request.dump_path);  // proves that it can be written
    dump.emplace(*request.steps, request.batch, tokens, channels, *request.height, *request.width);
  }

  self.load(observer, residency);
  ExecContext ctx = self.context(observer);
  const bool lends = residency && residency->choice.lends_scratch;
  if (lends) self.give_room(ctx);
  if (residency) self.reserve_scratch(residency->early_scratch_bytes);
  const Tensor features = self.encode(observer, ids, residency);
  if (dump) {
    dump->set_text(ids, features);
    dump->set_sigmas(plan.schedule.sigmas);
  }
  const bool uses_uncond = dump || std::any_of(request.guidance.begin(), request.guidance.end(), [](float g) { return g != 1.0f; });
  const int grid_h = plan.grid_height, grid_w = plan.grid_width;
  const auto cond_session = self.cond->prepare(ctx, grid_h, grid_w, features.view(), plan.schedule.times, loras.conditional());
  const auto uncond_session = uses_uncond ? self.uncond->prepare(ctx, grid_h, grid_w, std::nullopt, plan.schedule.times, loras.unconditional()) : nullptr;

  const Shape shape{tokens, channels};
  const auto device_tensor = [&](std::string_view what) { return Tensor(DType::f32, shape, self.options.device, what); };
  StepBuffers buffers{device_tensor("latents"), device_tensor("velocity"), device_tensor("velocity")};
  const Tensor start(DType::f32, shape, {}, "noise");
  std::vector<Image> images;
  for (int picture = 0; picture < request.batch; ++picture) {
    if (given_noise) {
      const std::int64_t first = given_noise->shape()[0] == 1 ? 0 : picture * shape.elements();
      std::copy_n(given_noise->as<float>() + first, shape.elements(), start.as<float>());
    } else {
      draw_noise(request.seed + std::uint64_t(picture), {start.as<float>(), std::size_t(shape.elements())});
    }
    if (residency) self.reserve_scratch(residency->scratch_bytes);
    if (picture == 0) self.open_side(uses_uncond ? residency : std::nullopt);
    if (self.streamed) self.streamed->start();
    copy_tensor(ctx, start, buffers.latents);
    self.denoise(ctx, plan, *cond_session, uncond_session.get(), picture, buffers, dump ? &*dump : nullptr);
    if (lends) self.give_room(ctx);
    images.push_back(self.decode(ctx, plan, buffers.latents, picture, dump ? &*dump : nullptr));
    if (finished) finished(images.back());
  }
  if (dump) dump->write(*request.dump_path, {{kRequestKey, request_json(request, self.origin(), request.seed)}});
  return images;
}

}  // namespace octavo
