#include "pipeline/model_bench.h"
#include "pipeline/side_stream.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "device/counters.h"
#include "device/cuda_check.h"
#include "models/flux2_vae/vae.h"
#include "models/ideogram4/dit.h"
#include "models/qwen3_vl/text_encoder.h"
#include "models/random_model.h"
#include "nn/placement.h"
#include "octavo/error.h"
#include "ops/attention/attention_choice.h"
#include "ops/guided_step/guided_step.h"
#include "ops/random_fill/random_fill.h"
#include "pipeline/op_record.h"

namespace octavo {
namespace {

constexpr float kGuidance = 5;  // not 1, so that both branches run

// Two events around every op. The host runs ahead of the GPU, so what they measure is the GPU's time for the op and one event.
class EventTimer final : public OpTimer {
 public:
  ~EventTimer() override {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  void begin(const ExecContext& ctx, OpWork work) override {
    if (depth_++ > 0) return;  // an op that calls another is one op
    ops_.push_back({.work = std::move(work)});
    record(ctx);
  }
  void end(const ExecContext& ctx) override {
    if (--depth_ == 0) record(ctx);
  }
  void ran(std::string_view kernel) override {
    if (!ops_.empty()) ops_.back().kernel = kernel;
  }
  // The ops since the last call. Waits for them.
  std::vector<TimedOp> take(const Stream& stream) {
    stream.synchronize();
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      float milliseconds = 0;
      cuda_check(cudaEventElapsedTime(&milliseconds, events_[2 * i], events_[2 * i + 1]), "bench model: time of an op");
      ops_[i].seconds = double(milliseconds) * 1e-3;
    }
    used_ = 0;
    return std::exchange(ops_, {});
  }

 private:
  void record(const ExecContext& ctx) {
    if (used_ == events_.size()) {
      events_.push_back(nullptr);
      cuda_check(cudaEventCreate(&events_.back()), "bench model: event");
    }
    cuda_check(cudaEventRecord(events_[used_++], static_cast<cudaStream_t>(ctx.stream->handle())), "bench model: record an event");
  }

  std::vector<cudaEvent_t> events_{};
  std::size_t used_ = 0;
  int depth_ = 0;
  std::vector<TimedOp> ops_{};
};

// The counters that a step must not move, as they stand.
struct Counted {
  std::int64_t allocations = device_counters().allocations, waits = device_counters().waits, host_copies = device_counters().host_copies;
  std::int64_t graph_launches = device_counters().graph_launches, recorded_kernels = device_counters().recorded_kernels;
};

class Bench {
 public:
  explicit Bench(const ModelBenchQuestion& question)
      : question_(question),
        caps_(caps_of(question.device)),
        scratch_(question.device),
        stream_(question.device),
        model_(question.model),
        memory_(question.device) {
    ctx_ = {.device = question.device, .pool = &pool_, .scratch = &scratch_, .stream = &stream_, .observer = &quiet_, .draws_weights = true};
    cuda_check(cudaSetDevice(question.device.index), "bench model: select device");
    common_.model = question.model;
    common_.precision = question.precision.name;
    common_.caps = caps_;
    common_.text = question.text;
    common_.steps = question.steps;
    common_.used_before_bytes = memory_.now();
    common_.op_clock_seconds = measure_clock();
    if (question.gpu_state) common_.state_before = question.gpu_state();
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  std::vector<ModelRun> run() {
    const Precision precision = precision::on_gpu(question_.precision, caps_.sm), plain = precision::plain_on_gpu(question_.precision, caps_.sm);
    if (question_.text > 0) encode(plain);

    memory_.forget();
    const Stopwatch denoisers_clock;
    const ideogram4::Dit conditional(ctx_, model_.path() / "transformer", "transformer", precision);
    ctx_.attention = settled_attention(AttentionKind::automatic, precision, caps_.sm, conditional.config().head_dim);
    const ideogram4::Dit unconditional(ctx_, model_.path() / "unconditional_transformer", "unconditional_transformer", precision);
    stream_.synchronize();
    common_.load_denoisers_seconds = denoisers_clock.seconds();
    say(fmt::format("{}: both denoisers loaded in {:.2f} s", precision.name, common_.load_denoisers_seconds));
    const Stopwatch vae_clock;
    const flux2_vae::Vae vae(ctx_, model_.path() / "vae", plain);
    stream_.synchronize();
    common_.load_vae_seconds = vae_clock.seconds();

    std::vector<ModelRun> runs;
    for (const int size : question_.sizes) {
      ModelRun run = common_;
      run.size = size;
      denoise(conditional, unconditional, vae.config().scale() * vae.config().patch, run);
      decode(vae, run);
      run.peak_image_bytes = memory_.look();
      if (question_.gpu_state) run.state_after = question_.gpu_state();
      say(fmt::format("{} {}x{}: forward {:.2f} / {:.2f} ms (text / none), step {:.2f} ms, image of {} steps {:.2f} s", precision.name, size, size,
                      run.conditional.median * 1e3, run.unconditional.median * 1e3, run.step.median * 1e3, run.steps, run.image_seconds()));
      runs.push_back(std::move(run));
    }
    return runs;
  }

 private:
  int rounds(int full) const { return question_.quick ? std::max(2, full / 3) : full; }
  void say(const std::string& line) const {
    if (question_.progress) question_.progress(line);
  }

  TimeSpread measure(int count, const std::function<void()>& body) {
    std::vector<double> seconds;
    for (int round = 0; round < count; ++round) {
      stream_.synchronize();
      const Stopwatch clock;
      body();
      stream_.synchronize();
      seconds.push_back(clock.seconds());
    }
    return spread_of(std::move(seconds));
  }
  std::vector<OpRow> ops_of(const std::string& part, int passes, const std::function<void()>& body) {
    std::vector<std::vector<TimedOp>> timed;
    ctx_.timer = &timer_;
    for (int pass = 0; pass < passes; ++pass) {
      try {
        body();
      } catch (...) {
        ctx_.timer = nullptr;
        throw;
      }
      timed.push_back(timer_.take(stream_));
    }
    ctx_.timer = nullptr;
    return rows_of(part, timed, common_.op_clock_seconds, caps_);
  }

  // The median of 200 empty ops.
  double measure_clock() {
    ctx_.timer = &timer_;
    for (int i = 0; i < 200; ++i) {
      const OpSpan span(ctx_, [] { return OpWork{.op = "nothing"}; });
    }
    ctx_.timer = nullptr;
    std::vector<double> seconds;
    for (const TimedOp& op : timer_.take(stream_)) seconds.push_back(op.seconds);
    return spread_of(std::move(seconds)).median;
  }

  void encode(const Precision& precision) {
    memory_.forget();
    const Stopwatch load;
    const qwen3_vl::TextEncoder encoder(ctx_, model_.path() / "text_encoder", models::random_model_taps(question_.model), precision);
    stream_.synchronize();
    common_.load_text_seconds = load.seconds();
    std::vector<std::int32_t> ids(static_cast<std::size_t>(question_.text));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = std::int32_t(i * 389 % 1024);
    features_ = encoder.encode(ctx_, ids);  // allocates and loads code
    common_.encode = measure(rounds(6), [&] { features_ = encoder.encode(ctx_, ids); });
    common_.rows = ops_of("text encoder", 1, [&] { features_ = encoder.encode(ctx_, ids); });
    common_.peak_text_bytes = memory_.look();
    say(fmt::format("text encoder loaded in {:.2f} s, {} tokens in {:.1f} ms", common_.load_text_seconds, question_.text, common_.encode.median * 1e3));
  }

  void denoise(const ideogram4::Dit& conditional, const ideogram4::Dit& unconditional, int token_pixels, ModelRun& run) {
    const int grid = run.size / token_pixels;
    std::vector<float> times(static_cast<std::size_t>(run.steps));
    for (std::size_t i = 0; i < times.size(); ++i) times[i] = float(i) / float(times.size());
    const std::optional<TensorView> features = run.text > 0 ? std::optional<TensorView>(features_) : std::nullopt;
    std::unique_ptr<ideogram4::Session> with_text, without;
    const auto prepare = [&] {
      with_text = conditional.prepare(ctx_, grid, grid, features, times);
      without = unconditional.prepare(ctx_, grid, grid, std::nullopt, times);
    };
    prepare();
    run.prepare_seconds = measure(rounds(3), prepare).median;

    const Shape shape{std::int64_t(grid) * grid, conditional.config().in_channels};
    const auto state = [&](std::string_view what) { return Tensor(DType::f32, shape, ctx_.device, what); };
    const Tensor latents = state("latents"), velocity = state("velocity"), other = state("velocity");
    int at = 0;
    const auto with = [&] { conditional.forward(ctx_, *with_text, at, latents, velocity); };
    const auto plain = [&] { unconditional.forward(ctx_, *without, at, latents, other); };
    const auto guide = [&] { guided_step(ctx_, latents, velocity, other.view(), kGuidance, 1.0f / float(run.steps)); };
    SideStream side(ctx_.device, 0);  // as the pipeline runs a step where memory allows
    const auto step = [&] {
      side.start(ctx_, [&](ExecContext& beside) { unconditional.forward(beside, *without, at, latents, other); });
      with();
      side.join(ctx_);
      guide();
      at = (at + 1) % run.steps;
    };
    const auto restart = [&] { random_fill(ctx_, latents, 1, 7); };  // weights of no meaning may drive the picture anywhere; its numbers stay plain

    restart();
    const Counted before_recording;
    for (int i = 0; i < 3; ++i) step();  // as it comes, which sizes the scratch; then recorded
    stream_.synchronize();
    run.kernels_recorded = Counted().recorded_kernels - before_recording.recorded_kernels;
    restart();
    step();
    stream_.synchronize();
    const Counted before;
    step();
    const Counted after;
    run.allocations = after.allocations - before.allocations;
    run.waits = after.waits - before.waits;
    run.host_copies = after.host_copies - before.host_copies;
    run.graph_launches = after.graph_launches - before.graph_launches;

    run.conditional = measure(rounds(9), with);
    run.unconditional = measure(rounds(9), plain);
    restart();
    run.steps_measured = rounds(12);
    run.step = measure(run.steps_measured, step);
    const auto add = [&](std::vector<OpRow> rows) { run.rows.insert(run.rows.end(), rows.begin(), rows.end()); };
    restart();
    add(ops_of("conditional", rounds(5), with));
    add(ops_of("unconditional", rounds(5), plain));
    add(ops_of("guidance", rounds(5), guide));
  }

  // From latents on the host to a picture in float32 on the host; PNG is not part of it.
  void decode(const flux2_vae::Vae& vae, ModelRun& run) {
    const int grid = run.size / (vae.config().scale() * vae.config().patch);
    const Tensor latents(DType::f32, {std::int64_t(grid) * grid, vae.config().token_channels()}, {}, "latents"), tokens(DType::f32, latents.shape(), {});
    ExecContext cpu;
    random_fill(cpu, latents, 1, 11);
    const auto decode = [&] {
      std::memcpy(tokens.as<void>(), latents.as<void>(), latents.bytes());
      vae.denormalize(ctx_, tokens);
      const Tensor picture = vae.decode(ctx_, vae.unpatchify(tokens, grid, grid));
    };
    decode();
    run.decode = measure(rounds(6), decode);
    const std::vector<OpRow> rows = ops_of("vae", 1, decode);
    run.rows.insert(run.rows.end(), rows.begin(), rows.end());
  }

  const ModelBenchQuestion& question_;
  DeviceCaps caps_;
  ThreadPool pool_{};
  Arena scratch_;
  Stream stream_;
  models::TemporaryRandomModel model_;
  MemoryWatch memory_;
  Observer quiet_{};  // random statistics of the autoencoder would be worth a warning
  ExecContext ctx_{};
  EventTimer timer_{};
  ModelRun common_{};
  Tensor features_{};
};

}  // namespace

std::vector<ModelRun> bench_model(const ModelBenchQuestion& question) { return Bench(question).run(); }

}  // namespace octavo
