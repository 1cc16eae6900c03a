// LoRAs through the front door: a property of one request, of which the next one sees nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "octavo/engine.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char* const kTiny = OCTAVO_SOURCE_DIR "/tests/golden/data/tiny-hd64";
constexpr int kHidden = 192;

// A folder of LoRA files for the two blocks of the tiny model.
class EngineLora : public ::testing::Test {
 protected:
  EngineLora() {
    std::string pattern = (std::filesystem::temp_directory_path() / "octavo-lora-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
  }
  ~EngineLora() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Both layers' fused attention input, rank 2, numbers that depend on `phase`. Written as the format is published: length, JSON, data.
  std::string write(const std::string& name, float phase) const {
    std::string header = "{", data;
    const auto tensor = [&](const std::string& key, int rows, int columns) {
      const std::size_t first = data.size();
      for (int i = 0; i < rows * columns; ++i) {
        const float value = 0.3f * std::sin(phase + 0.37f * float(i));
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
      header += (header.size() > 1 ? "," : "") + ("\"" + key + R"(":{"dtype":"F32","shape":[)") + std::to_string(rows) + "," + std::to_string(columns) +
                R"(],"data_offsets":[)" + std::to_string(first) + "," + std::to_string(data.size()) + "]}";
    };
    for (const std::string layer : {"0", "1"}) {
      tensor("diffusion_model.layers." + layer + ".attention.qkv.lora_A.weight", 2, kHidden);
      tensor("diffusion_model.layers." + layer + ".attention.qkv.lora_B.weight", 3 * kHidden, 2);
    }
    header += "}";
    const std::uint64_t length = header.size();
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&length), sizeof length) << header << data;
    return path;
  }
  static Request request(std::vector<LoraSource> loras) {
    Request request{.prompt = "two red squares", .width = 32, .height = 32, .steps = 2, .guidance = {2.0f}, .mu = 0.0, .std_dev = 1.5, .seed = 5};
    request.loras = std::move(loras);
    return request;
  }

 private:
  std::filesystem::path folder_{};
};

TEST_F(EngineLora, with_another_and_without_again_on_one_engine) {
  const std::string one = write("one.safetensors", 0), two = write("two.safetensors", 1);
  for (const std::string precision : {"f32", "bf16", "w8a8"}) {
    Engine engine({.model = kTiny, .precision = precision});
    const auto without = engine.generate(request({}))[0].rgb;
    const auto with_one = engine.generate(request({{one, 0.8}}))[0].rgb;
    const auto with_two = engine.generate(request({{two, 0.8}}))[0].rgb;
    const auto with_both = engine.generate(request({{one, 0.8}, {two, 0.8}}))[0].rgb;
    EXPECT_NE(with_one, without) << precision;
    EXPECT_NE(with_two, with_one) << precision;
    EXPECT_NE(with_both, with_one) << precision;
    EXPECT_EQ(engine.generate(request({}))[0].rgb, without) << precision;
    EXPECT_EQ(engine.generate(request({{one, 0.8}}))[0].rgb, with_one) << precision;
    EXPECT_EQ(engine.generate(request({{one, 0.0}}))[0].rgb, without) << precision;
    EXPECT_NE(engine.generate(request({{one, -0.8}}))[0].rgb, with_one) << precision;
    Engine fresh({.model = kTiny, .precision = precision, .threads = 1});
    EXPECT_EQ(fresh.generate(request({{one, 0.8}}))[0].rgb, with_one) << precision;
  }
}

TEST_F(EngineLora, every_picture_of_a_batch_is_the_one_drawn_alone) {
  const std::string one = write("one.safetensors", 0);
  Engine engine({.model = kTiny});
  Request batch = request({{one, 1}}), second = batch;
  batch.batch = 2;
  second.seed = batch.seed + 1;
  const auto pictures = engine.generate(batch);
  EXPECT_EQ(pictures[1].rgb, engine.generate(second)[0].rgb);
  EXPECT_EQ(pictures[1].metadata, engine.generate(second)[0].metadata);
}

TEST_F(EngineLora, weights_are_loaded_once) {
  Engine engine({.model = kTiny});
  engine.generate(request({}));
  int loads = 0;
  Callbacks callbacks;
  callbacks.progress = [&](const Progress& progress) { loads += progress.part == "load"; };
  engine.generate(request({{write("one.safetensors", 0), 1}}), callbacks);
  EXPECT_EQ(loads, 0);
}

TEST_F(EngineLora, advisory_counts_keys_and_metadata_names_file_and_strength) {
  const std::string one = write("one.safetensors", 0);
  Engine engine({.model = kTiny});
  std::vector<std::string> lines;
  Callbacks callbacks;
  callbacks.advisory = [&](const std::string& line) {
    if (line.starts_with("lora ")) lines.push_back(line);
  };
  const auto pictures = engine.generate(request({{one, 0.25}}), callbacks);
  EXPECT_THAT(lines, ElementsAre("lora '" + one + "': 4 of 4 keys applied, strength 0.25"));
  EXPECT_THAT(pictures[0].metadata.at("octavo"), HasSubstr("\"lora\":[\"" + one + ":0.25\"]"));
}

TEST_F(EngineLora, bad_ones_are_refused_and_leave_an_engine_that_still_works) {
  const std::string one = write("one.safetensors", 0), damaged = write("damaged.safetensors", std::numeric_limits<float>::quiet_NaN());
  Engine engine({.model = kTiny});
  const auto without = engine.generate(request({}))[0].rgb;
  EXPECT_THROW(engine.generate(request({{damaged, 1}})), DataError);
  EXPECT_THROW(engine.generate(request({{one, 1}, {one + ".none", 1}})), InvalidArgument);
  EXPECT_THROW(engine.generate(request({{one, std::nan("")}})), InvalidArgument);
  EXPECT_THROW(engine.generate(request({{"", 1}})), InvalidArgument);
  EXPECT_EQ(engine.generate(request({}))[0].rgb, without);
}

}  // namespace
}  // namespace octavo
