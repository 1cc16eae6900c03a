#include "api/plan.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "api/named_options.h"
#include "api/resources.h"
#include "io/json.h"
#include "octavo/error.h"
#include "ops/attention/attention_choice.h"
#include "pipeline/loras.h"
#include "pipeline/model_index.h"
#include "pipeline/model_memory.h"
#include "pipeline/request_plan.h"
#include "pipeline/residency.h"

namespace octavo {
namespace {

constexpr std::int64_t kMostTextTokens = 2048;
constexpr std::int64_t kNoBudget = std::int64_t(1) << 60;

Precision precision_of(const std::string& name, const ModelIndex& index, int sm) {
  const std::optional<Precision> named = precision_named("plan", name);
  return named ? *named : stored_precision(index, sm);
}

// Of the GPU that is planned for; without one here, of one that has everything.
int compute_capability(const EngineOptions& options) {
  if (list_gpus().gpus.empty()) return precision::kNoOldGpu;
  return caps_of(parse_device(options.device)).sm;
}

struct Budget {
  std::int64_t bytes = kNoBudget;
  std::string_view from = "none";  // "option", "free"
};

Budget budget_of(const EngineOptions& options) {
  const bool is_auto = options.device == "auto";
  if (options.device == "cpu")
    throw InvalidArgument("plan: --device cpu has no memory to plan; weights stay in the mapped files there. Give cuda, or leave it out");
  if (options.vram_bytes > 0) return {options.vram_bytes, "option"};
  const Device device = parse_device(options.device);
  if (is_auto && device.is_cpu()) return {};
  return {free_budget(device), "free"};
}

// The request as generate would fill it in, in this command's name.
RequestPlan filled_in(const Request& request, const ModelIndex& index, int token_pixels) {
  try {
    return plan_request(request, index.defaults, token_pixels);
  } catch (const InvalidArgument& refused) {
    constexpr std::string_view kOther = "generate: ";
    const std::string_view message = refused.what();
    throw InvalidArgument(message.starts_with(kOther) ? fmt::format("plan: {}", message.substr(kOther.size())) : std::string(message));
  }
}

struct Planned {
  std::string model{}, precision{}, attention{};
  PictureMemory picture{};
  Budget budget{};
  ResidencyPlan plan{};
  int cond_layers = 0, uncond_layers = 0;
};

std::string budget_text(const Planned& planned) {
  if (planned.budget.from == "none") return "no GPU here and no --vram: planned as if everything fits";
  return fmt::format("budget {}{}, of which {} stay free", memory_size_text(planned.budget.bytes), planned.budget.from == "free" ? " (what is free now)" : "",
                     memory_size_text(kMarginBytes));
}

std::string layers_text(int layers, int streamed) {
  return streamed == 0 ? fmt::format("all {} layers stay on the GPU", layers)
                       : fmt::format("{} of {} layers stay on the GPU, {} are streamed in every step", layers - streamed, layers, streamed);
}

std::string text_of(const Planned& p) {
  const ResidencyPlan& plan = p.plan;
  std::string text =
      fmt::format("{}: {}x{}, {} steps, {} text tokens, --precision {}, --attention {}\n{}\npeak {}, in the part '{}' (predicted; a batch takes no more)\n\n",
                  p.model, p.picture.width, p.picture.height, p.picture.steps, p.picture.text_tokens, p.precision, p.attention, budget_text(p),
                  memory_size_text(plan.peak_bytes()), plan.largest_phase().name);
  text += fmt::format("text encoder               {}\n", plan.keeps_text_whole ? "whole, then it leaves" : "one layer at a time");
  text += fmt::format("conditional denoiser       {}\n", layers_text(p.cond_layers, plan.choice.cond_streamed));
  text += fmt::format("unconditional denoiser     {}\n", layers_text(p.uncond_layers, plan.choice.uncond_streamed));
  text += fmt::format("weights of the preparation {}\n", plan.choice.keeps_conditioning ? "stay" : "come and go with every request");
  text += fmt::format("decoder                    strips of rows, one after the other{}\n",
                      plan.choice.lends_scratch ? ", in the room of the denoisers' rows" : "");
  if (plan.choice.streams()) {
    text += fmt::format("host to GPU                {} in every step; as much page-locked host memory\n", memory_size_text(plan.streamed_bytes));
  }
  for (const ResidencyPlan::Phase& phase : plan.phases) {
    text += fmt::format("\n{:<9} {:>9}\n", phase.name, memory_size_text(phase.bytes()));
    for (const ResidencyPlan::Item& item : phase.items) text += fmt::format("  {:>9}  {}\n", memory_size_text(item.bytes), item.what);
  }
  return text;
}

std::string json_of(const Planned& p) {
  Json phases = Json::array();
  for (const ResidencyPlan::Phase& phase : p.plan.phases) {
    Json items = Json::array();
    for (const ResidencyPlan::Item& item : phase.items) items.push_back({{"what", item.what}, {"bytes", item.bytes}});
    phases.push_back({{"name", phase.name}, {"bytes", phase.bytes()}, {"items", items}});
  }
  const ResidencyPlan& plan = p.plan;
  const Json all{{"model", p.model},
                 {"precision", p.precision},
                 {"attention", p.attention},
                 {"width", p.picture.width},
                 {"height", p.picture.height},
                 {"steps", p.picture.steps},
                 {"text_tokens", p.picture.text_tokens},
                 {"budget_bytes", p.budget.from == "none" ? Json(nullptr) : Json(p.budget.bytes)},
                 {"budget_from", p.budget.from},
                 {"margin_bytes", kMarginBytes},
                 {"peak_bytes", plan.peak_bytes()},
                 {"streamed_bytes_per_step", plan.streamed_bytes},
                 {"scratch_bytes", plan.scratch_bytes},
                 {"text_encoder_whole", plan.keeps_text_whole},
                 {"preparation_stays", plan.choice.keeps_conditioning},
                 {"scratch_leaves_for_decoder", plan.choice.lends_scratch},
                 {"transformer", {{"layers", p.cond_layers}, {"streamed", plan.choice.cond_streamed}}},
                 {"unconditional_transformer", {{"layers", p.uncond_layers}, {"streamed", plan.choice.uncond_streamed}}},
                 {"phases", phases}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string describe_plan(const EngineOptions& options, const Request& request, std::int64_t text_tokens, Format format) {
  if (text_tokens < 1 || text_tokens > kMostTextTokens) {
    throw InvalidArgument(fmt::format("plan: --text-tokens {} must be at least 1 and at most {}", text_tokens, kMostTextTokens));
  }
  Planned planned{.model = options.model.empty() ? default_model().string() : options.model};
  planned.budget = budget_of(options);
  const ModelIndex index = ModelIndex::read(planned.model);
  const int sm = compute_capability(options);
  const Precision precision = precision_of(options.precision, index, sm);
  planned.precision = precision.name;
  const ModelMemory memory(index, precision::on_gpu(precision, sm), precision::plain_on_gpu(precision, sm), Device{Device::Kind::cuda, 0});
  const AttentionKind attention =
      settled_attention(attention_named("plan", options.attention), precision, list_gpus().gpus.empty() ? 0 : sm, memory.head_dim());
  planned.attention = attention == AttentionKind::int8 ? "int8" : "bf16";  // as the option calls it
  const Request full = filled_in(request, index, memory.token_pixels()).request;
  Observer silent;
  const RequestLoras loras(full.loras, index, silent);
  planned.picture = {.width = *full.width,
                     .height = *full.height,
                     .steps = *full.steps,
                     .text_tokens = text_tokens,
                     .attention = attention,
                     .cond_lora = loras.conditional(),
                     .uncond_lora = loras.unconditional()};
  planned.cond_layers = int(memory.weights().cond.layers.size());
  planned.uncond_layers = int(memory.weights().uncond.layers.size());
  planned.plan = memory.plan("plan", planned.picture, planned.budget.bytes);
  return format == Format::text ? text_of(planned) : json_of(planned);
}

std::int64_t memory_size(std::string_view option, const std::string& text) { return parse_memory_size(option, text); }

}  // namespace octavo
