#include "weights/weight_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "golden/temporary_model.h"
#include "octavo/error.h"

namespace octavo {
namespace {

using golden::TemporaryFolder;
using golden::write_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Exception, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "nothing was thrown";
}

class WeightStoreTest : public ::testing::Test {
 protected:
  TemporaryFolder temporary{};
  std::filesystem::path folder = temporary.path();

  void write(const std::string& file, const std::vector<std::string>& names, DType dtype = DType::bf16) const {
    const Tensor zeros = Tensor::zeros(dtype, {2, 3});
    std::vector<NamedTensor> list;
    for (const std::string& name : names) list.push_back({name, zeros});
    write_safetensors(folder / file, list);
  }
};

TEST_F(WeightStoreTest, empty_folder_says_what_was_looked_for) {
  const std::string message = message_of<InvalidArgument>([&] { WeightStore(folder, "vae"); });
  EXPECT_THAT(message, HasSubstr("vae: no weights in"));
  EXPECT_THAT(message, HasSubstr("diffusion_pytorch_model.safetensors"));
  EXPECT_THAT(message, HasSubstr(".index.json"));
}

TEST_F(WeightStoreTest, both_file_names_and_their_indices_are_found) {
  for (const std::string file : {"model.safetensors", "diffusion_pytorch_model.safetensors"}) {
    write(file, {"a", "b"});
    EXPECT_THAT(WeightStore(folder, "x").names(), ElementsAre("a", "b")) << file;
    std::filesystem::rename(folder / file, folder / "part-1.safetensors");
    write_text(folder / (file + ".index.json"), R"({"weight_map": {"b": "part-1.safetensors"}})");
    const WeightStore store(folder, "x");
    EXPECT_THAT(store.names(), ElementsAre("b"));
    EXPECT_EQ(store.get("b", {2, 3}).dtype, DType::bf16);
    EXPECT_FALSE(store.has("a"));
    std::filesystem::remove(folder / (file + ".index.json"));
  }
}

TEST_F(WeightStoreTest, missing_shard) {
  write("part-1.safetensors", {"a"});
  write_text(folder / "model.safetensors.index.json", R"({"weight_map": {"a": "part-1.safetensors", "b": "part-2.safetensors"}})");
  EXPECT_THAT(message_of<DataError>([&] { WeightStore(folder, "x"); }), HasSubstr("part-2.safetensors"));
}

TEST_F(WeightStoreTest, index_promises_a_tensor_that_its_shard_lacks) {
  write("part-1.safetensors", {"a"});
  write_text(folder / "model.safetensors.index.json", R"({"weight_map": {"b": "part-1.safetensors"}})");
  EXPECT_THAT(message_of<DataError>([&] { WeightStore(folder, "x"); }), HasSubstr("tensor 'b' is not in 'part-1.safetensors'"));
}

TEST_F(WeightStoreTest, index_without_a_map_or_pointing_elsewhere) {
  for (const std::string text : {R"({})", R"([])", R"({"weight_map": {}})", R"({"weight_map": 3})", R"({"weight_map": {"a": 7}})",
                                 R"({"weight_map": {"a": "../x.safetensors"}})", R"({"weight_map": {"a": "/x.safetensors"}})", "not json", ""}) {
    write_text(folder / "model.safetensors.index.json", text);
    EXPECT_THAT(message_of<DataError>([&] { WeightStore(folder, "x"); }), HasSubstr("model.safetensors.index.json")) << text;
  }
}

TEST_F(WeightStoreTest, get_names_what_is_wrong) {
  write("model.safetensors", {"a"});
  const WeightStore store(folder, "transformer");
  EXPECT_THAT(message_of<DataError>([&] { store.get("b"); }), HasSubstr("transformer: tensor 'b' is missing"));
  const std::string message = message_of<DataError>([&] { store.get("a", {3, 2}); });
  EXPECT_THAT(message, HasSubstr("[2, 3]"));
  EXPECT_THAT(message, HasSubstr("[3, 2]"));
}

TEST_F(WeightStoreTest, integers_are_no_weights) {
  write("model.safetensors", {"a"}, DType::s8);
  const WeightStore store(folder, "transformer");
  EXPECT_THAT(message_of<DataError>([&] { store.get("a"); }), HasSubstr("stored as I8"));
}

TEST_F(WeightStoreTest, check_names_the_first_problem_and_counts_the_others) {
  write("model.safetensors", {"a", "b", "extra", "visual.c"});
  const WeightStore store(folder, "x");
  const std::vector<ParamSpec> good{{.name = "a", .shape = {2, 3}}, {.name = "b", .shape = {2, 3}}, {.name = "absent", .shape = {1}, .optional = true}};
  constexpr std::string_view kIgnored[] = {"visual."};
  EXPECT_THAT(store.check(good, kIgnored), ElementsAre("extra"));
  const std::vector<ParamSpec> bad{{.name = "a", .shape = {2, 3}}, {.name = "b", .shape = {2, 4}}, {.name = "c", .shape = {1}}, {.name = "d", .shape = {1}}};
  const std::string message = message_of<DataError>([&] { store.check(bad, kIgnored); });
  EXPECT_THAT(message, HasSubstr("x: tensor 'b' is [2, 3] but config.json asks for [2, 4] (and 2 more"));
}

TEST_F(WeightStoreTest, released_pages_are_read_again) {
  Tensor numbers(DType::f32, {64, 64});
  for (std::int64_t i = 0; i < 64 * 64; ++i) numbers.as<float>()[i] = float(i);
  const NamedTensor named{"a", numbers};
  write_safetensors(folder / "model.safetensors", {&named, 1});
  const WeightStore store(folder, "x");
  const TensorView view = store.get("a");
  store.release("a");
  store.release("not there");
  EXPECT_EQ(view.as<float>()[4095], 4095.0f);
}

}  // namespace
}  // namespace octavo
