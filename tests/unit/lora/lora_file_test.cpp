// What a LoRA file says, and every way in which one can be broken. Its container is read by SafetensorsFile, which tests/fuzz/fuzz_safetensors.cpp
// feeds with hostile bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "golden/lora_files.h"
#include "octavo/error.h"

namespace octavo {
namespace {

using golden::LoraBuilder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class LoraFileTest : public ::testing::Test {
 protected:
  golden::TemporaryFolder temporary{};
  std::filesystem::path path = temporary.path() / "style.safetensors";

  // Opening `builder`'s file must throw a `Failure` whose message names the file and all of `words`.
  template <class Failure>
  void refuse(const LoraBuilder& builder, const std::vector<std::string>& words) {
    builder.write(path);
    try {
      const LoraFile file(path);
      FAIL() << "accepted; wanted: " << words.front();
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("lora '" + path.string() + "'"));
      for (const std::string& word : words) EXPECT_THAT(failure.what(), HasSubstr(word));
    }
  }
};

TEST_F(LoraFileTest, the_name_of_peft_adapters_may_be_left_in) {
  LoraBuilder builder;
  builder.add_pair("m", 5, 7, 3, 1, DType::f32, {".lora_A.default.weight", ".lora_B.default.weight"});
  builder.write(path);
  const LoraFile file(path);
  ASSERT_EQ(file.pairs().size(), 1u);
  EXPECT_EQ(file.pairs()[0].module, "m");
  EXPECT_EQ(file.pairs()[0].up.shape, Shape({5, 3}));
}

TEST_F(LoraFileTest, both_spellings_of_a_pair) {
  LoraBuilder builder;
  builder.add_pair("a.first", 5, 7, 3, 1, DType::bf16, golden::kPeft);
  builder.add_pair("b.second", 6, 7, 2, 3, DType::f16, golden::kKohya);
  builder.write(path);
  const LoraFile file(path);
  ASSERT_EQ(file.pairs().size(), 2u);
  EXPECT_EQ(file.keys(), 4u);
  EXPECT_TRUE(file.other_keys().empty());
  const LoraPair &first = file.pairs()[0], &second = file.pairs()[1];
  EXPECT_EQ(first.module, "a.first");
  EXPECT_EQ(first.down.shape, Shape({3, 7}));
  EXPECT_EQ(first.up.shape, Shape({5, 3}));
  EXPECT_EQ(first.down.dtype, DType::bf16);
  EXPECT_EQ(first.scale, 1.0);
  EXPECT_EQ(first.keys, 2u);
  EXPECT_EQ(second.module, "b.second");
  EXPECT_EQ(second.down.shape, Shape({2, 7}));
  EXPECT_EQ(second.up.shape, Shape({6, 2}));
  EXPECT_EQ(second.up.dtype, DType::f16);
}

TEST_F(LoraFileTest, alpha_is_divided_by_the_rank_whatever_its_type) {
  int count = 0;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::s64, DType::s32}) {
    for (const Shape& shape : {Shape{}, Shape{1}}) {
      LoraBuilder builder;
      builder.add_pair("m", 5, 7, 16, 1);
      if (dtype == DType::s64 || dtype == DType::s32) {
        Tensor number(dtype, shape);
        if (dtype == DType::s64) *number.as<std::int64_t>() = 4;
        if (dtype == DType::s32) *number.as<std::int32_t>() = 4;
        builder.add("m.alpha", std::move(number));
      } else {
        builder.add_number("m.alpha", 4, dtype, shape);
      }
      builder.write(path);
      const LoraFile file(path);
      EXPECT_EQ(file.pairs()[0].scale, 0.25) << name_of(dtype) << shape.text();
      EXPECT_EQ(file.pairs()[0].keys, 3u);
      ++count;
    }
  }
  EXPECT_EQ(count, 10);
}

TEST_F(LoraFileTest, numbers_are_those_of_the_file) {
  LoraBuilder builder;
  const TensorView a = builder.add("m.lora_A.weight", golden::random_rows({3, 7}, 1)), b = builder.add("m.lora_B.weight", golden::random_rows({5, 3}, 2));
  builder.write(path);
  const LoraFile file(path);
  EXPECT_EQ(std::memcmp(file.pairs()[0].down.data, a.data, a.bytes()), 0);
  EXPECT_EQ(std::memcmp(file.pairs()[0].up.data, b.data, b.bytes()), 0);
}

TEST_F(LoraFileTest, what_belongs_to_no_pair_is_listed) {
  LoraBuilder builder;
  builder.add_pair("m", 5, 7, 3, 1);
  builder.add_number("lonely.alpha", 1);
  builder.add("m.diff_b", golden::random_rows({5}, 1));
  builder.write(path);
  const LoraFile file(path);
  EXPECT_THAT(std::vector(file.other_keys().begin(), file.other_keys().end()), ::testing::UnorderedElementsAre("lonely.alpha", "m.diff_b"));
}

TEST_F(LoraFileTest, half_of_a_pair) {
  LoraBuilder only_a, only_b, crossed;
  only_a.add("m.lora_A.weight", golden::random_rows({3, 7}, 1));
  refuse<DataError>(only_a, {"'m.lora_A.weight'", "other half"});
  only_b.add("m.lora_up.weight", golden::random_rows({5, 3}, 1));
  refuse<DataError>(only_b, {"'m.lora_up.weight'", "other half"});
  crossed.add_pair("m", 5, 7, 3, 1);
  crossed.add("m.lora_down.weight", golden::random_rows({3, 7}, 1));
  refuse<DataError>(crossed, {"'m.lora_A.weight'", "'m.lora_down.weight'", "same half"});
}

TEST_F(LoraFileTest, shapes_that_do_not_meet) {
  LoraBuilder ranks, vector, convolution, empty;
  ranks.add("m.lora_A.weight", golden::random_rows({3, 7}, 1));
  ranks.add("m.lora_B.weight", golden::random_rows({5, 4}, 1));
  refuse<DataError>(ranks, {"'m'", "[3, 7]", "[5, 4]", "ranks 3 and 4"});
  vector.add("m.lora_A.weight", golden::random_rows({7}, 1));
  vector.add("m.lora_B.weight", golden::random_rows({5, 1}, 1));
  refuse<DataError>(vector, {"'m.lora_A.weight'", "[7]", "matrix"});
  convolution.add("m.lora_down.weight", golden::random_rows({3, 7, 1, 1}, 1));
  convolution.add("m.lora_up.weight", golden::random_rows({5, 3, 1, 1}, 1));
  refuse<DataError>(convolution, {"'m.lora_down.weight'", "[3, 7, 1, 1]", "matrix"});
  empty.add("m.lora_A.weight", Tensor(DType::f32, {0, 7}));
  empty.add("m.lora_B.weight", Tensor(DType::f32, {5, 0}));
  refuse<DataError>(empty, {"'m.lora_A.weight'", "[0, 7]", "not empty"});
}

TEST_F(LoraFileTest, numbers_that_are_not_finite) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      for (const std::string half : {"lora_A", "lora_B"}) {
        LoraBuilder builder;
        std::map<std::string, Tensor> halves;
        halves["lora_A"] = Tensor::zeros(dtype, {3, 7});
        halves["lora_B"] = Tensor::zeros(dtype, {5, 3});
        store_from_float(&bad, 1, dtype, halves[half].as<std::byte>() + 14 * bytes_of(dtype));  // both have 15 numbers or more
        for (auto& [name, tensor] : halves) builder.add("m." + name + ".weight", std::move(tensor));
        refuse<DataError>(builder, {"'m." + half + ".weight'", "not finite", "element 14"});
      }
    }
  }
}

// The largest finite numbers of each type are numbers like any other.
TEST_F(LoraFileTest, the_largest_finite_numbers_pass) {
  for (const auto& [dtype, largest] :
       {std::pair{DType::f32, std::numeric_limits<float>::max()}, std::pair{DType::bf16, 0x1.fep127f}, std::pair{DType::f16, 65504.0f}}) {
    LoraBuilder builder;
    for (const auto& [name, shape] : {std::pair{"m.lora_A.weight", Shape{3, 7}}, std::pair{"m.lora_B.weight", Shape{5, 3}}}) {
      Tensor tensor = Tensor::zeros(dtype, shape);
      store_from_float(&largest, 1, dtype, tensor.as<void>());
      builder.add(name, std::move(tensor));
    }
    builder.write(path);
    EXPECT_EQ(LoraFile(path).pairs().size(), 1u) << name_of(dtype);
  }
}

TEST_F(LoraFileTest, alpha_that_is_no_number) {
  LoraBuilder nan, two, text;
  nan.add_pair("m", 5, 7, 3, 1);
  nan.add_number("m.alpha", std::numeric_limits<float>::quiet_NaN());
  refuse<DataError>(nan, {"'m.alpha'", "nan", "finite"});
  two.add_pair("m", 5, 7, 3, 1);
  two.add("m.alpha", golden::random_rows({2}, 1));
  refuse<DataError>(two, {"'m.alpha'", "[2]", "one number"});
  text.add_pair("m", 5, 7, 3, 1);
  text.add("m.alpha", Tensor::zeros(DType::boolean, {1}));
  refuse<Unsupported>(text, {"'m.alpha'", "BOOL"});
}

TEST_F(LoraFileTest, numbers_in_a_type_that_is_not_read) {
  LoraBuilder builder;
  builder.add("m.lora_A.weight", Tensor::zeros(DType::s8, {3, 7}));
  builder.add("m.lora_B.weight", golden::random_rows({5, 3}, 1));
  refuse<Unsupported>(builder, {"'m.lora_A.weight'", "I8", "F32, BF16 and F16"});
}

TEST_F(LoraFileTest, relatives_are_refused_by_name) {
  for (const auto& [key, name] : {std::pair{"m.dora_scale", "DoRA"}, std::pair{"m.lora_magnitude_vector", "DoRA"}, std::pair{"m.hada_w1_a", "LoHa"},
                                  std::pair{"m.lokr_w2", "LoKr"}, std::pair{"m.lora_mid.weight", "LoCon"}}) {
    LoraBuilder builder;
    builder.add_pair("m", 5, 7, 3, 1);
    builder.add(key, golden::random_rows({5, 1}, 1));
    refuse<Unsupported>(builder, {key, name, "only plain LoRAs"});
  }
}

TEST_F(LoraFileTest, a_checkpoint_is_no_lora) {
  LoraBuilder builder;
  builder.add("layers.0.attention.o.weight", golden::random_rows({5, 7}, 1));
  refuse<InvalidArgument>(builder, {"holds no LoRA", "its 1 tensors", "'layers.0.attention.o.weight'"});
  refuse<InvalidArgument>(LoraBuilder(), {"holds no LoRA", "its 0 tensors"});
}

TEST_F(LoraFileTest, missing_and_truncated_files) {
  EXPECT_THROW(LoraFile(temporary.path() / "none.safetensors"), InvalidArgument);
  LoraBuilder builder;
  builder.add_pair("m", 5, 7, 3, 1);
  builder.write(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THROW(LoraFile{path}, DataError);
}

}  // namespace
}  // namespace octavo
