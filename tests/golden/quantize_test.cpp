// What quantising costs in the result: golden models, plain and rotated int8 files, through the real denoisers in w8a8.
#include "convert/quantize.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "base/files.h"
#include "golden/golden.h"
#include "golden/temporary_model.h"
#include "models/ideogram4/dit.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;
using golden::CpuContext;
using golden::Reference;

constexpr float kGuidance = 7.0f;

// A model folder's two denoisers, possibly changed, and what they compute at one model time.
struct Denoisers {
  fs::path cond, uncond;

  Tensor guided(CpuContext& cpu, const Reference& reference, const Precision& precision) const {
    const Tensor features = reference.features(), noise = reference.noise();
    const std::vector<float> times{0.37f};
    std::vector<Tensor> v;
    for (const bool conditional : {true, false}) {
      const ideogram4::Dit dit(cpu, conditional ? cond : uncond, conditional ? "transformer" : "unconditional_transformer", precision);
      const auto session = dit.prepare(cpu, 6, 4, conditional ? std::optional<TensorView>(features) : std::nullopt, times);
      v.emplace_back(DType::f32, noise.shape());
      dit.forward(cpu, *session, 0, noise, v.back());
    }
    for (std::int64_t i = 0; i < noise.shape().elements(); ++i) v[0].as<float>()[i] = kGuidance * v[0].as<float>()[i] + (1 - kGuidance) * v[1].as<float>()[i];
    return std::move(v[0]);
  }
};

class Quantize : public ::testing::TestWithParam<std::string> {
 protected:
  Reference reference{GetParam()};
  golden::TemporaryFolder temporary{};
  CpuContext cpu{};

  Denoisers source() const { return {reference.folder / "transformer", reference.folder / "unconditional_transformer"}; }

  // The same network with one input channel of every block projection made `factor` times as large by the norm before it: weights of that
  // channel divided by as much, so that in exact arithmetic nothing changes.
  Denoisers with_outlier(float factor) {
    Denoisers changed{temporary.path() / "outlier" / "transformer", temporary.path() / "outlier" / "unconditional_transformer"};
    for (const auto& [from, to] : {std::pair{source().cond, changed.cond}, std::pair{source().uncond, changed.uncond}}) {
      golden::EditableCheckpoint checkpoint(from / golden::kDiffusersFile);
      checkpoint.convert(DType::f32);
      for (auto& [name, view] : checkpoint.tensors()) {
        if (!name.starts_with("layers.")) continue;
        constexpr std::int64_t kChannel = 5;
        if (name.ends_with("attention_norm1.weight") || name.ends_with("ffn_norm1.weight")) view.as<float>()[kChannel] *= factor;
        const bool reads_norm = name.find(".to_q.") != std::string::npos || name.find(".to_k.") != std::string::npos ||
                                name.find(".to_v.") != std::string::npos || name.ends_with("w1.weight") || name.ends_with("w3.weight");
        if (!reads_norm) continue;
        for (std::int64_t n = 0; n < view.rows(); ++n) view.row<float>(n)[kChannel] /= factor;
      }
      fs::create_directories(to);
      fs::copy_file(from / "config.json", to / "config.json");
      checkpoint.write(to / golden::kDiffusersFile);
    }
    return changed;
  }

  Denoisers quantized(const Denoisers& from, const std::string& name, QuantizeRecipe recipe, QuantizeReport* report = nullptr,
                      const ActivationStatistics* statistics = nullptr) {
    Denoisers result{temporary.path() / name / "transformer", temporary.path() / name / "unconditional_transformer"};
    Observer observer;
    for (const auto& [in, out] : {std::pair{from.cond, result.cond}, std::pair{from.uncond, result.uncond}}) {
      fs::create_directories(out);
      fs::copy_file(in / "config.json", out / "config.json");
      if (statistics != nullptr) recipe.activations = &statistics->of(in == from.cond ? "transformer" : "unconditional_transformer");
      const QuantizeReport made = quantize_checkpoint(in, out / golden::kDiffusersFile, recipe, cpu.pool, observer);
      if (report != nullptr) *report = made;
    }
    return result;
  }
  double error(const Denoisers& denoisers, const Precision& precision, const Tensor& expected) {
    return golden::relative_l2(denoisers.guided(cpu, reference, precision), expected);
  }
};
INSTANTIATE_TEST_SUITE_P(, Quantize, ::testing::ValuesIn(golden::reference_names()), golden::test_name);

// The same arithmetic at another time: a plain int8 file of the block linears gives the bits that w8a8 gives when it quantises at load.
TEST_P(Quantize, a_plain_file_is_what_w8a8_makes_at_load) {
  const Denoisers file = quantized(source(), "blocks", {.group = 0, .protect = {"*adaln_modulation"}});
  EXPECT_TRUE(golden::same_bits(file.guided(cpu, reference, precision::w8a8), source().guided(cpu, reference, precision::w8a8)));
}

// Multiplying in bf16 after dequantising adds two roundings to a product of the same codes; weights alone in 8 or 4 bits have their own errors.
TEST_P(Quantize, precisions_for_comparison) {
  const Tensor expected = source().guided(cpu, reference, precision::f32);
  const double w8a8 = error(source(), precision::w8a8, expected), dequant = error(source(), precision::w8a8_dequant, expected);
  const double fp8 = error(source(), precision::fp8, expected), nf4 = error(source(), precision::nf4, expected);
  std::printf("%s after guidance %.0f: w8a8 %.5f  w8a8-dequant %.5f  fp8 %.5f  nf4 %.5f\n", GetParam().c_str(), kGuidance, w8a8, dequant, fp8, nf4);
  EXPECT_GE(dequant, 0.9 * w8a8);
  EXPECT_LE(dequant, 2 * w8a8);
  EXPECT_GT(fp8, w8a8);  // 4 significant bits against 7 and more
  EXPECT_GT(nf4, fp8);
  EXPECT_LE(nf4, 0.2);
}

TEST_P(Quantize, errors_per_layer_and_after_guidance) {
  Observer nobody;
  ActivationStatistics statistics(nobody);
  cpu.ctx.observer = &statistics;
  const Tensor expected = source().guided(cpu, reference, precision::f32);
  cpu.ctx.observer = nullptr;
  QuantizeReport plain_report, rotated_report;
  const Denoisers plain = quantized(source(), "plain", {.group = 0}, &plain_report, &statistics);
  const Denoisers rotated = quantized(source(), "rotated", {.group = 16}, &rotated_report, &statistics);
  double plain_sum = 0, rotated_sum = 0, plain_output = 0, rotated_output = 0;
  for (std::size_t i = 0; i < plain_report.layers.size(); ++i) {
    const QuantizedLayer& a = plain_report.layers[i];
    const QuantizedLayer& b = rotated_report.layers[i];
    if (!a.is_quantized) continue;
    std::printf("%s %-40s weight: plain %.4f  rotated %.4f (%d)   output: plain %.4f  rotated %.4f\n", GetParam().c_str(), a.module.c_str(), a.relative_error,
                b.relative_error, b.rotation_group, a.output_error, b.output_error);
    plain_sum += a.relative_error * a.relative_error;
    rotated_sum += b.relative_error * b.relative_error;
    ASSERT_TRUE(a.was_measured() && b.was_measured()) << a.module;
    plain_output += a.output_error * a.output_error;
    rotated_output += b.output_error * b.output_error;
    EXPECT_EQ(b.rotation_group, 16);
    // A step of the largest weight / 127 has a uniform error of step / sqrt(12): with rows of Gaussian weights, whose largest of K <= 512 is
    // below 4.5 times their root mean square, 4.5 / 127 / sqrt(12) = 1.02 %.
    EXPECT_LE(a.relative_error, 0.0102) << a.module;
    EXPECT_LE(b.relative_error, 0.0102) << b.module;
  }
  const double plain_error = error(plain, precision::w8a8, expected), rotated_error = error(rotated, precision::w8a8, expected);
  std::printf("%s after guidance %.0f: plain %.5f  rotated %.5f  at load %.5f\n", GetParam().c_str(), kGuidance, plain_error, rotated_error,
              error(source(), precision::w8a8, expected));
  // These weights are Gaussian already, so a rotation has nothing to gain; it must not lose either, beyond what two draws of rounding differ by.
  EXPECT_LE(std::sqrt(rotated_sum), 1.1 * std::sqrt(plain_sum));
  // What the layers read is not Gaussian, products of SiLU least of all: there the rotation gains, and over all layers it must.
  EXPECT_LE(std::sqrt(rotated_output), std::sqrt(plain_output));
  EXPECT_LE(rotated_error, 1.25 * plain_error);
}

// An outlier of 50 times the rest leaves the others 2.5 bits. Smoothing moves half of it (in logarithms) back into the weights, and here that undoes
// it. A rotation over G channels leaves a G-th root of its energy in each: 50 / sqrt(256) = 3.1 beside values whose largest is about 3, so twice
// the step; hence the wider bound.
TEST_P(Quantize, an_outlier_channel_is_tamed_by_smoothing_and_nearly_by_rotation) {
  constexpr float kFactor = 50;
  const Denoisers planted = with_outlier(kFactor);
  const Tensor expected = source().guided(cpu, reference, precision::f32);
  ASSERT_LE(error(planted, precision::f32, expected), 1e-4) << "planting must not change the function";
  Observer nobody;
  ActivationStatistics statistics(nobody);
  cpu.ctx.observer = &statistics;
  planted.guided(cpu, reference, precision::f32);
  cpu.ctx.observer = nullptr;

  const double clean = error(quantized(source(), "clean", {.group = 0}), precision::w8a8, expected);
  const double plain = error(quantized(planted, "plain", {.group = 0}), precision::w8a8, expected);
  const int group = GetParam() == "tiny-hd256" ? 256 : 64;  // the largest that divides the width, 256 or 192
  const double rotated = error(quantized(planted, "rotated", {.group = group}), precision::w8a8, expected);
  const double smoothed = error(quantized(planted, "smoothed", {.group = 0, .smooth = 0.5}, nullptr, &statistics), precision::w8a8, expected);
  const double both = error(quantized(planted, "both", {.group = group, .smooth = 0.5}, nullptr, &statistics), precision::w8a8, expected);
  std::printf("%s outlier x %.0f: clean %.5f  plain %.5f  rotated by %d %.5f  smoothed %.5f  both %.5f\n", GetParam().c_str(), kFactor, clean, plain, group,
              rotated, smoothed, both);
  EXPECT_GE(plain, 3 * clean) << "the outlier must hurt, or the test shows nothing";
  EXPECT_LE(rotated, 3 * clean);
  EXPECT_LE(smoothed, 2 * clean);
  EXPECT_LE(both, 2 * clean);

  // Layers kept as the worst stay in the smoothing that they share with their neighbours: one factor forgotten would cost far more than int8 does.
  // All of them kept (drawn in f32: w8a8 quantises a file without any int8 at load) leaves the rounding of weights to bf16, 2^-9 / sqrt(3) = 0.11 % each.
  QuantizeReport report;
  const double some =
      error(quantized(planted, "some", {.group = 0, .protects_worst = true, .budget = 0.3, .smooth = 0.5}, &report, &statistics), precision::w8a8, expected);
  EXPECT_LE(some, 1.25 * smoothed);
  EXPECT_THAT(report.layers, ::testing::Contains(::testing::Field(&QuantizedLayer::after, "kept: worst output")));
  EXPECT_THAT(report.layers, ::testing::Contains(::testing::Field(&QuantizedLayer::is_quantized, true)));
  const double all =
      error(quantized(planted, "all", {.group = 0, .protects_worst = true, .budget = 1, .smooth = 0.5}, &report, &statistics), precision::f32, expected);
  EXPECT_THAT(report.layers, ::testing::Each(::testing::Field(&QuantizedLayer::is_quantized, false)));
  std::printf("%s smoothed, worst kept %.5f  all kept %.5f\n", GetParam().c_str(), some, all);
  EXPECT_LE(all, 0.5 * clean);
}

// Smoothing moves factors about: one that is lost in one of the eight places would cost far more than rounding does.
TEST_P(Quantize, smoothing_costs_nothing_where_there_is_no_outlier) {
  Observer nobody;
  ActivationStatistics statistics(nobody);
  cpu.ctx.observer = &statistics;
  const Tensor expected = source().guided(cpu, reference, precision::f32);
  cpu.ctx.observer = nullptr;
  ASSERT_GE(statistics.of("transformer").size(), 14u);
  QuantizeReport report;
  const double smoothed = error(quantized(source(), "smoothed", {.group = 0, .smooth = 0.5}, &report, &statistics), precision::w8a8, expected);
  EXPECT_THAT(report.remarks, ::testing::Contains("smoothing was folded in 8 places"));  // 4 in each of 2 layers
  const double plain = error(quantized(source(), "plain", {.group = 0}), precision::w8a8, expected);
  std::printf("%s without outlier: plain %.5f  smoothed %.5f\n", GetParam().c_str(), plain, smoothed);
  EXPECT_LE(smoothed, 1.25 * plain);
}

// One column of one matrix made 200 times as large: its rows keep 7 - log2(200 / 3) = 1 bit for everything else.
TEST_P(Quantize, the_layer_that_suffers_most_is_the_one_that_is_kept) {
  const std::string victim = "layers.1.attention.to_k";
  Denoisers planted{temporary.path() / "victim" / "transformer", source().uncond};
  golden::EditableCheckpoint checkpoint(source().cond / golden::kDiffusersFile);
  checkpoint.convert(DType::f32);
  const TensorView w = checkpoint.tensors().at(victim + ".weight");
  for (std::int64_t n = 0; n < w.rows(); ++n) w.row<float>(n)[9] *= 200;
  fs::create_directories(planted.cond);
  fs::copy_file(source().cond / "config.json", planted.cond / "config.json");
  checkpoint.write(planted.cond / golden::kDiffusersFile);

  Observer nobody;
  ActivationStatistics statistics(nobody);
  cpu.ctx.observer = &statistics;
  planted.guided(cpu, reference, precision::f32);
  cpu.ctx.observer = nullptr;
  const auto convert = [&](double budget) {
    const fs::path out = temporary.path() / "kept.safetensors";
    QuantizeRecipe recipe{.group = 0, .protects_worst = true, .budget = budget, .activations = &statistics.of("transformer")};
    QuantizeReport report = quantize_checkpoint(planted.cond, out, recipe, cpu.pool, nobody);
    EXPECT_EQ(std::int64_t(fs::file_size(out)), report.bytes_after);
    return report;
  };
  const QuantizeReport none = convert(0);
  const auto kept_as_worst = [](const QuantizeReport& report) {
    std::vector<std::string> names;
    for (const QuantizedLayer& layer : report.layers) {
      if (layer.after == "kept: worst output") names.push_back(layer.module);
    }
    return names;
  };
  EXPECT_TRUE(kept_as_worst(none).empty());
  const auto worst = std::max_element(none.layers.begin(), none.layers.end(), [](const auto& a, const auto& b) { return a.output_error < b.output_error; });
  EXPECT_EQ(worst->module, victim);
  // Room for its second byte per weight and no more.
  const double room = double(w.rows() * w.columns()) / double(none.bytes_after);
  const QuantizeReport kept = convert(room);
  EXPECT_THAT(kept_as_worst(kept), ::testing::Contains(victim));
  EXPECT_LE(double(kept.bytes_after), (1 + room) * double(none.bytes_after));
  EXPECT_THAT(convert(room / 1000).remarks, ::testing::Contains(::testing::HasSubstr("worst of the others " + victim)));
}

TEST_P(Quantize, an_int8_file_quantised_again_is_unchanged) {
  const Denoisers once = quantized(source(), "once", {.group = 16}), twice = quantized(once, "twice", {.group = 64});
  const SafetensorsFile a(once.cond / golden::kDiffusersFile), b(twice.cond / golden::kDiffusersFile);
  ASSERT_EQ(a.entries().size(), b.entries().size());
  for (const SafetensorsEntry& entry : a.entries()) {
    const TensorView x = a.tensor(entry.name), y = b.tensor(entry.name);
    ASSERT_EQ(x.shape, y.shape) << entry.name;
    EXPECT_EQ(std::memcmp(x.data, y.data, x.bytes()), 0) << entry.name;
  }
}

TEST_P(Quantize, same_bytes_for_any_number_of_threads) {
  Observer observer;
  std::vector<std::string> files;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const fs::path out = temporary.path() / fmt::format("{}.safetensors", threads);
    quantize_checkpoint(source().cond, out, {.group = 16}, pool, observer);
    files.push_back(read_text(out, 1u << 30));
  }
  EXPECT_TRUE(files[0] == files[1]);
}

}  // namespace
}  // namespace octavo
