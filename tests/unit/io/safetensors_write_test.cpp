#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/files.h"
#include "io/safetensors.h"
#include "octavo/error.h"
#include "unit/io/temporary_folder.h"

namespace octavo {
namespace {

using testing::HasSubstr;
using testing_files::message_of;
using testing_files::TemporaryFolder;

Tensor counting(DType dtype, Shape shape) {
  Tensor tensor(dtype, shape);
  auto* bytes = tensor.as<std::uint8_t>();
  for (std::size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = std::uint8_t(i * 7 + 3);
  return tensor;
}

TEST(SafetensorsWrite, what_is_written_is_read_back) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out.safetensors";
  std::vector<Tensor> tensors;
  std::vector<NamedTensor> named;
  int count = 0;
  for (const DType dtype :
       {DType::f64, DType::s64, DType::f32, DType::s32, DType::bf16, DType::f16, DType::s16, DType::s8, DType::u8, DType::boolean, DType::f8_e4m3}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{3, 4}, Shape{2, 0, 3}, Shape{1, 2, 1, 2, 1, 2}}) {
      tensors.push_back(counting(dtype, shape));
      named.push_back({"tensor." + std::to_string(count++) + ".é\"\\", tensors.back().view()});
    }
  }
  write_safetensors(path, named, {{"a", "1"}, {"Ä", "text with \"quotes\" and\nlines"}});

  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"a", "1"}, {"Ä", "text with \"quotes\" and\nlines"}}));
  ASSERT_EQ(file.entries().size(), named.size());
  for (const NamedTensor& wanted : named) {
    const TensorView found = file.tensor(wanted.name);
    ASSERT_EQ(found.dtype, wanted.view.dtype) << wanted.name;
    ASSERT_EQ(found.shape, wanted.view.shape) << wanted.name;
    if (found.bytes() > 0) {
      ASSERT_EQ(std::memcmp(found.data, wanted.view.data, found.bytes()), 0) << wanted.name;
    }
  }
}

TEST(SafetensorsWrite, order_is_kept_and_data_starts_aligned) {
  const TemporaryFolder folder;
  const Tensor a = counting(DType::f32, {3}), b = counting(DType::f32, {4});
  for (int extra = 0; extra < 70; ++extra) {  // every header length modulo 64
    const auto path = folder.path() / "out.safetensors";
    write_safetensors(path, std::vector<NamedTensor>{{std::string(std::size_t(extra + 1), 'z'), a}, {"a", b}});
    const SafetensorsFile file(path);
    ASSERT_EQ(file.entries()[0].offset % 64, 0u);
    ASSERT_EQ(file.entries()[1].name, "a");
  }
}

TEST(SafetensorsWrite, strided_rows_are_gathered) {
  const TemporaryFolder folder;
  const Tensor wide = counting(DType::s16, {300, 50});
  const TensorView columns = wide.view().column_range(7, 20);
  ASSERT_FALSE(columns.is_dense());
  write_safetensors(folder.path() / "out.safetensors", std::vector<NamedTensor>{{"t", columns}});
  const SafetensorsFile file(folder.path() / "out.safetensors");
  const TensorView read = file.tensor("t");
  ASSERT_EQ(read.shape, (Shape{300, 20}));
  for (std::int64_t row = 0; row < 300; ++row) ASSERT_EQ(std::memcmp(read.row_bytes(row), columns.row_bytes(row), 40), 0) << row;
}

TEST(SafetensorsWrite, larger_than_the_write_buffer) {
  const TemporaryFolder folder;
  const Tensor small = counting(DType::u8, {1000}), large = counting(DType::f32, {1000, 1000});
  write_safetensors(folder.path() / "out.safetensors", std::vector<NamedTensor>{{"s", small}, {"l", large}, {"t", small}});
  const SafetensorsFile file(folder.path() / "out.safetensors");
  EXPECT_EQ(std::memcmp(file.tensor("l").data, large.as<void>(), large.bytes()), 0);
  EXPECT_EQ(std::memcmp(file.tensor("t").data, small.as<void>(), small.bytes()), 0);
}

TEST(SafetensorsWrite, same_tensors_same_bytes) {
  const TemporaryFolder folder;
  const Tensor a = counting(DType::f32, {9});
  for (const char* name : {"1", "2"}) write_safetensors(folder.path() / name, std::vector<NamedTensor>{{"a", a}}, {{"k", "v"}});
  EXPECT_EQ(read_text(folder.path() / "1", 1 << 20), read_text(folder.path() / "2", 1 << 20));
}

TEST(SafetensorsWrite, nothing_at_all_is_a_valid_file) {
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "out.safetensors", {});
  EXPECT_TRUE(SafetensorsFile(folder.path() / "out.safetensors").entries().empty());
}

TEST(SafetensorsWrite, bad_names_and_paths_leave_no_file) {
  const TemporaryFolder folder;
  const Tensor a = counting(DType::u8, {1});
  const auto path = folder.path() / "out.safetensors";
  const auto complaint = [&](const std::vector<NamedTensor>& tensors) { return message_of<InvalidArgument>([&] { write_safetensors(path, tensors); }); };
  EXPECT_THAT(complaint({{"a", a}, {"a", a}}), HasSubstr("two tensors are called 'a'"));
  EXPECT_THAT(complaint({{"__metadata__", a}}), HasSubstr("__metadata__"));
  EXPECT_THAT(complaint({{"\xff", a}}), HasSubstr("UTF-8"));
  EXPECT_THROW(write_safetensors(folder.path() / "absent" / "out.safetensors", std::vector<NamedTensor>{{"a", a}}), InvalidArgument);
  EXPECT_THROW(write_safetensors(folder.path(), std::vector<NamedTensor>{{"a", a}}), InvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace octavo
