// Every checkpoint dialect through the whole program: the denoisers, the text encoder, the picture. tools/make_format_fixtures.py wrote the files.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "golden/golden.h"
#include "golden/temporary_model.h"
#include "io/json.h"
#include "models/ideogram4/dit.h"
#include "models/qwen3_vl/text_encoder.h"
#include "pipeline/pipeline.h"
#include "weights/weight_store.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;
using golden::CpuContext;
using golden::Reference;

fs::path fixtures() { return OCTAVO_FORMAT_FIXTURES; }

// How far a picture of these models may be from the one of the plain bf16 file, both computed in f32. The models are random: every error goes
// through 6 steps with guidance up to 7 and is far more visible than in a trained model, so these are bounds against blunders, set 3 dB below what
// was measured. 99 means equal bytes
// (f16 cannot hold every bf16 number).
struct Dialect {
  std::string name;
  double psnr_f32;
  double psnr_w8a8 = 0;  // 0: not drawn
};

const std::vector<Dialect>& dialects() {
  static const std::vector<Dialect> list{
      {"bf16_fused", 99, 49},
      {"f16_fused", 80},
      {"f32_split", 99},
      {"bf16_prefix_model", 99},
      {"bf16_prefix_short", 99},
      {"bf16_sharded", 99},
      {"fp8_row", 32, 32},
      {"fp8_column", 34},
      {"fp8_one", 34},
      {"fp8_scalar", 34},
      {"fp8_comfy", 42},
      {"fp8_comfy_older", 42},
      {"fp8_cast", 42},
      {"nf4", 23},
      {"nf4_nested", 23},
      {"nf4_split", 23},
      {"int8_scalar", 49, 47},
      {"int8_row", 51, 49},
      {"int8_convrot", 51, 49},
      {"int8_convrot_row", 51, 49},
      {"int8_convrot_scalar", 48, 47},
      {"int8_convrot_256", 50, 48},
      {"int8_fast", 51, 49},
      {"lightx2v", 51, 49},
      {"int8_header_only", 51, 49},
      {"int8_header_lies", 51, 49},
      {"w8a8_smooth", 38, 35},
      {"w8a8_smooth_inverse", 38, 35},
      {"gguf_q8_0", 48},
      {"gguf_q4_0", 27},
      {"gguf_q4_k", 34},
      {"gguf_f16", 87},
      {"gguf_bf16", 99},
  };
  return list;
}

Json manifest_entry(const std::string& name) {
  const Json manifest = read_json(fixtures() / "manifest.json");
  for (const Json& dialect : manifest["dialects"]) {
    if (dialect["name"] == name) return dialect;
  }
  return {};
}

// A whole model folder: the golden one with the components of a dialect in their places.
class DialectModel {
 public:
  explicit DialectModel(const std::string& name)
      : name_(name), entry_(manifest_entry(name)), golden_(golden::data_folder() / entry_["model"].get<std::string>()) {
    for (const char* part : {"model_index.json", "scheduler", "tokenizer", "vae"}) fs::create_symlink(golden_ / part, folder() / part);
    for (const std::string component : {"text_encoder", "transformer", "unconditional_transformer"}) place(component);
  }
  const fs::path& folder() const { return temporary_.path(); }
  const fs::path& golden() const { return golden_; }
  const Json& components() const { return entry_["components"]; }

 private:
  void place(const std::string& component) {
    fs::path from = golden_ / component;
    for (const Json& part : entry_["components"]) {
      if (part["component"] != component) continue;
      from = fixtures() / (part.contains("base") ? part["base"].get<std::string>() : name_) / component;
      if (part.contains("path") && !fs::exists(folder() / "overlay.safetensors"))
        fs::create_symlink(fixtures() / part["path"].get<std::string>(), folder() / "overlay.safetensors");
    }
    fs::create_symlink(from, folder() / component);
  }

  std::string name_;
  Json entry_;
  fs::path golden_;
  golden::TemporaryFolder temporary_{};
};

std::optional<WeightOverlay> overlay_of(const DialectModel& model, const std::string& component) {
  const fs::path file = model.folder() / "overlay.safetensors";
  if (!fs::exists(file)) return {};
  return WeightOverlay{file, component.starts_with("un") ? "unconditional." : "conditional."};
}

// The same component as a plain file: the dequantised weights that the generator expects, in float32, and everything else as the dialect has it.
void write_dequantised(const DialectModel& model, const std::string& dialect, const std::string& component, const std::string& prefix, const fs::path& to) {
  const WeightStore store(model.folder() / component, component, overlay_of(model, component));
  const SafetensorsFile expected(fixtures() / dialect / "expected.safetensors");
  std::vector<NamedTensor> list;
  for (const std::string& name : store.names()) {
    if (name.ends_with(".weight") && name.starts_with(prefix) && expected.find(component + "/" + name.substr(prefix.size(), name.size() - prefix.size() - 7)))
      continue;
    const bool is_plain = !name.ends_with(".comfy_quant") && !name.ends_with("_scale") && !name.ends_with(".scale_weight") && !name.ends_with("scaled_fp8") &&
                          name.find(".weight.") == std::string::npos && !name.ends_with(".wq") && !name.ends_with(".ws") && !name.ends_with(".smooth");
    if (is_plain && !name.starts_with("visual.")) list.push_back({name, store.get(name)});
  }
  for (const SafetensorsEntry& entry : expected.entries()) {
    if (entry.name.starts_with(component + "/")) list.push_back({prefix + entry.name.substr(component.size() + 1) + ".weight", expected.tensor(entry.name)});
  }
  std::stable_sort(list.begin(), list.end(), [](const NamedTensor& a, const NamedTensor& b) { return bytes_of(a.view.dtype) > bytes_of(b.view.dtype); });
  fs::create_directories(to);
  fs::copy_file(model.folder() / component / "config.json", to / "config.json");
  write_safetensors(to / (component == "text_encoder" ? "model.safetensors" : golden::kDiffusersFile), list);
}

class EveryDialect : public ::testing::TestWithParam<Dialect> {};
INSTANTIATE_TEST_SUITE_P(, EveryDialect, ::testing::ValuesIn(dialects()), [](const auto& i) { return i.param.name; });
void PrintTo(const Dialect& dialect, std::ostream* out) { *out << dialect.name; }

Tensor velocity(CpuContext& cpu, const fs::path& folder, const std::string& component, const Reference& reference, const Precision& precision) {
  const ideogram4::Dit dit(cpu, folder, component, precision);
  const Tensor features = reference.features(), noise = reference.noise();
  const std::vector<float> times{0.37f};
  const auto session = dit.prepare(cpu, 6, 4, component == "transformer" ? std::optional<TensorView>(features) : std::nullopt, times);
  Tensor result(DType::f32, noise.shape());
  dit.forward(cpu, *session, 0, noise, result);
  return result;
}

// Decoding on the way and a plain file of the same numbers are the same computation: equal bits in f32, and in w8a8 where the file is not int8.
TEST_P(EveryDialect, computes_what_a_plain_file_of_its_weights_computes) {
  const DialectModel model(GetParam().name);
  const Reference reference(model.golden().filename().string());
  CpuContext cpu;
  for (const Json& part : model.components()) {
    const auto component = part["component"].get<std::string>();
    SCOPED_TRACE(component);
    const golden::TemporaryFolder plain;
    write_dequantised(model, GetParam().name, component, part["prefix"].get<std::string>(), plain.path() / component);
    if (component == "text_encoder") {
      for (const Precision& precision : {precision::f32, precision::bf16}) {
        const qwen3_vl::TextEncoder ours(cpu, model.folder() / component, Reference::taps(), precision),
            theirs(cpu, plain.path() / component, Reference::taps(), precision);
        EXPECT_TRUE(golden::same_bits(ours.encode(cpu, reference.tokens(0)), theirs.encode(cpu, reference.tokens(0)))) << precision.name;
      }
      continue;
    }
    const bool is_int8 = WeightStore(model.folder() / component, component, overlay_of(model, component)).has_int8();
    for (const Precision& precision : {precision::f32, precision::bf16, precision::w8a8, precision::w8a8_dequant}) {
      if (is_int8 && precision.weight.is_quantized()) continue;
      const Tensor ours = velocity(cpu, model.folder() / component, component, reference, precision);
      EXPECT_TRUE(golden::same_bits(ours, velocity(cpu, plain.path() / component, component, reference, precision))) << precision.name;
    }
  }
}

double psnr(const Image& a, const Image& b) {
  EXPECT_EQ(a.rgb.size(), b.rgb.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.rgb.size(); ++i) sum += std::pow(double(a.rgb[i]) - b.rgb[i], 2);
  return sum == 0 ? 99 : 10 * std::log10(255.0 * 255.0 * double(a.rgb.size()) / sum);
}

Image draw(const fs::path& model, const fs::path& golden, const Precision& precision) {
  const Json settings = read_json(golden / "expected.json");
  Pipeline pipeline({.model = model, .precision = precision});
  Observer observer;
  const Request request{.prompt = settings["prompts"][0].get<std::string>(),
                        .width = 64,
                        .height = 96,
                        .steps = settings["steps"].get<int>(),
                        .guidance = settings["guidance"].get<std::vector<float>>(),
                        .mu = 0.0,
                        .std_dev = 1.5,
                        .noise = NoiseSource{(golden / "expected.safetensors").string(), "noise"}};
  return pipeline.run(pipeline.plan(request), observer, {}).at(0);
}

TEST_P(EveryDialect, draws_nearly_the_picture_of_the_plain_model) {
  const DialectModel model(GetParam().name);
  const Image plain = draw(model.golden(), model.golden(), precision::f32);
  const double in_f32 = psnr(draw(model.folder(), model.golden(), precision::f32), plain);
  std::printf("%-20s f32 %5.1f dB", GetParam().name.c_str(), in_f32);
  EXPECT_GE(in_f32, GetParam().psnr_f32);
  if (GetParam().psnr_w8a8 > 0) {
    const double in_w8a8 = psnr(draw(model.folder(), model.golden(), precision::w8a8), plain);
    std::printf("   w8a8 %5.1f dB", in_w8a8);
    EXPECT_GE(in_w8a8, GetParam().psnr_w8a8);
  }
  std::printf("\n");
}

}  // namespace
}  // namespace octavo
