#include "pipeline/model_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "octavo/error.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ModelIndexTest : public testing::Test {
 protected:
  fs::path folder_ = fs::path(testing::TempDir()) / ("octavo_index_" + std::to_string(::getpid()));
  void SetUp() override {
    for (const auto name : kComponents) fs::create_directories(folder_ / name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& text) { std::ofstream(folder_ / "model_index.json") << text; }
  template <class Expected>
  std::string message() {
    try {
      ModelIndex::read(folder_);
    } catch (const Expected& error) {
      return error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "another class of error: " << error.what();
    }
    return "(read without an error of that class)";
  }
};

constexpr const char* kMinimal = R"({"_class_name": "Ideogram4Pipeline"})";

TEST_F(ModelIndexTest, taps_default_to_the_published_thirteen) {
  write(kMinimal);
  const ModelIndex index = ModelIndex::read(folder_);
  EXPECT_THAT(index.taps, ElementsAre(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 35));
  EXPECT_FALSE(index.defaults.width || index.defaults.steps || index.defaults.mu);
}

TEST_F(ModelIndexTest, taps_and_defaults_of_the_file) {
  write(
      R"({"_class_name": "Ideogram4Pipeline", "text_encoder_taps": [0, 2], "generation_defaults": {"width": 64, "sizes": [[96, 64]], "guidance": [3, 2.5], "mu": -1, "std": 1.25}})");
  const ModelIndex index = ModelIndex::read(folder_);
  EXPECT_THAT(index.taps, ElementsAre(0, 2));
  EXPECT_EQ(index.defaults.width, 64);
  EXPECT_FALSE(index.defaults.height.has_value());
  EXPECT_THAT(index.defaults.sizes, ElementsAre(std::array{96, 64}));
  EXPECT_THAT(index.defaults.guidance, ElementsAre(3.0f, 2.5f));
  EXPECT_EQ(index.defaults.mu, -1.0);
  EXPECT_EQ(index.defaults.std_dev, 1.25);
}

TEST_F(ModelIndexTest, another_family) {
  write(R"({"_class_name": "FluxPipeline"})");
  EXPECT_THAT(message<InvalidArgument>(), AllOf(HasSubstr("FluxPipeline"), HasSubstr("Ideogram4Pipeline")));
  write("{}");
  EXPECT_THAT(message<InvalidArgument>(), HasSubstr("_class_name"));
}

TEST_F(ModelIndexTest, missing_folder_file_and_component) {
  EXPECT_THAT(message<InvalidArgument>(), HasSubstr("no model_index.json"));
  write(kMinimal);
  fs::remove_all(folder_ / "vae");
  EXPECT_THAT(message<InvalidArgument>(), AllOf(HasSubstr("'vae'"), HasSubstr("missing")));
  fs::remove_all(folder_);
  EXPECT_THAT(message<InvalidArgument>(), HasSubstr("does not exist"));
}

TEST_F(ModelIndexTest, fields_of_the_wrong_type_are_damage) {
  for (const char* taps : {"[]", "7", "[1, 1]", "[2, 1]", "[-1]", "[0.5]", "[\"0\"]", "[100000]"}) {
    write(std::string(R"({"_class_name": "Ideogram4Pipeline", "text_encoder_taps": )") + taps + "}");
    EXPECT_THAT(message<DataError>(), HasSubstr("text_encoder_taps")) << taps;
  }
  for (const char* field : {R"("width": "256")", R"("height": 0)", R"("steps": 1.5)", R"("guidance": [])", R"("guidance": ["x"])", R"("mu": "0")",
                            R"("std": [1])", R"("sizes": 256)", R"("sizes": [256, 256])", R"("sizes": [[256]])", R"("sizes": [[256, 0]])",
                            R"("sizes": [[1.5, 16]])", R"("sizes": [[99999999999, 16]])"}) {
    write(std::string(R"({"_class_name": "Ideogram4Pipeline", "generation_defaults": {)") + field + "}}");
    EXPECT_THAT(message<DataError>(), HasSubstr("generation_defaults")) << field;
  }
}

TEST_F(ModelIndexTest, not_json_and_empty) {
  write("<!DOCTYPE html><html>");
  EXPECT_THAT(message<DataError>(), HasSubstr("not JSON"));
  write("");
  message<DataError>();
  write("[1]");
  EXPECT_THAT(message<DataError>(), HasSubstr("object"));
}

}  // namespace
}  // namespace octavo
