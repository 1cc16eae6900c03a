#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "octavo/error.h"
#include "unit/io/temporary_folder.h"

namespace octavo {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_files::message_of;
using testing_files::TemporaryFolder;
using namespace std::string_literals;

std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += char(length >> (8 * i));
  return bytes;
}

std::string file_of(const std::string& header, const std::string& data) { return length_bytes(header.size()) + header + data; }

std::vector<SafetensorsEntry> parse(const std::string& bytes, std::map<std::string, std::string>* metadata = nullptr) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size(), "test", metadata);
}

std::string complaint(const std::string& bytes) {
  return message_of<DataError>([&] { parse(bytes); });
}
std::string complaint(const std::string& header, std::size_t data_bytes) { return complaint(file_of(header, std::string(data_bytes, '\0'))); }

TEST(SafetensorsHeader, tensors_come_in_file_order_with_absolute_offsets) {
  std::map<std::string, std::string> metadata;
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[6,14]},"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}})";
  const auto entries = parse(file_of(header, std::string(14, '\0')), &metadata);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].dtype, DType::bf16);
  EXPECT_EQ(entries[0].offset, 8 + header.size());
  EXPECT_EQ(entries[1].name, "b");
  EXPECT_EQ(entries[1].shape, (Shape{2, 1}));
  EXPECT_EQ(entries[1].offset, 8 + header.size() + 6);
  EXPECT_EQ(entries[1].bytes, 8u);
  EXPECT_EQ(metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
}

TEST(SafetensorsHeader, every_dtype_has_its_size) {
  const std::vector<std::tuple<std::string, int, std::optional<DType>>> cases = {
      {"F64", 8, DType::f64},         {"F32", 4, DType::f32}, {"F16", 2, DType::f16}, {"BF16", 2, DType::bf16}, {"I64", 8, DType::s64},
      {"I32", 4, DType::s32},         {"I16", 2, DType::s16}, {"I8", 1, DType::s8},   {"U8", 1, DType::u8},     {"BOOL", 1, DType::boolean},
      {"F8_E4M3", 1, DType::f8_e4m3}, {"F8_E5M2", 1, {}},     {"U16", 2, {}},         {"U32", 4, {}},           {"U64", 8, {}}};
  for (const auto& [name, size, dtype] : cases) {
    const auto header = [&](int bytes) { return "{\"t\":{\"dtype\":\"" + name + "\",\"shape\":[3],\"data_offsets\":[0," + std::to_string(bytes) + "]}}"; };
    const auto entries = parse(file_of(header(3 * size), std::string(std::size_t(3 * size), '\0')));
    EXPECT_EQ(entries.at(0).dtype, dtype) << name;
    EXPECT_EQ(entries.at(0).dtype_name, name);
    EXPECT_THAT(complaint(header(3 * size + 1), std::size_t(3 * size + 1)), HasSubstr("needs")) << name;
  }
}

TEST(SafetensorsHeader, unknown_dtype_is_kept_but_has_no_dtype) {
  const auto entries = parse(file_of(R"({"t":{"dtype":"Q7_K","shape":[5],"data_offsets":[0,3]}})", "abc"));
  EXPECT_FALSE(entries.at(0).dtype);
  EXPECT_EQ(entries.at(0).dtype_name, "Q7_K");
  EXPECT_EQ(entries.at(0).bytes, 3u);
}

TEST(SafetensorsHeader, scalar_and_empty_tensors) {
  const auto entries = parse(file_of(
      R"({"e2":{"dtype":"F32","shape":[4,0],"data_offsets":[4,4]},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e1":{"dtype":"I8","shape":[0],"data_offsets":[0,0]},"huge_but_empty":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904,0],"data_offsets":[4,4]}})",
      std::string(4, '\0')));
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].name, "e1");  // an empty tensor comes before the one that shares its offset
  EXPECT_EQ(entries[1].name, "s");
  EXPECT_EQ(entries[1].shape.rank(), 0);
  EXPECT_EQ(entries[1].shape.elements(), 1);
}

TEST(SafetensorsHeader, no_tensors_at_all) {
  EXPECT_TRUE(parse(file_of("{}", "")).empty());
  EXPECT_TRUE(parse(file_of("{}   ", "")).empty());  // padded with spaces, as writers do
}

TEST(SafetensorsHeader, not_this_format_says_what_it_is) {
  EXPECT_THAT(complaint(""), HasSubstr("is empty"));
  EXPECT_THAT(complaint("<!DOCTYPE html><html><head><title>404</title></head></html>"), HasSubstr("an HTML page"));
  EXPECT_THAT(complaint("  \n<html lang=\"en\">"), HasSubstr("an HTML page"));
  EXPECT_THAT(complaint("version https://git-lfs"), HasSubstr("a Git LFS pointer"));
  EXPECT_THAT(complaint("PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00\x00\x00"s), HasSubstr("a zip archive"));
  EXPECT_THAT(complaint("PK\x03\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"s), HasSubstr("a zip archive"));  // whose first 8 bytes are a possible length
  EXPECT_THAT(complaint("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"s), HasSubstr("pickle"));
  EXPECT_THAT(complaint("GGUF\x03\x00\x00\x00\x00\x00\x00\x00"s), HasSubstr("a GGUF file"));
}

TEST(SafetensorsHeader, truncated_at_every_byte) {
  const std::string whole = file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", std::string(8, 'x'));
  ASSERT_EQ(complaint(whole), "");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string message = complaint(whole.substr(0, length));
    EXPECT_THAT(message, testing::AnyOf(HasSubstr("truncated"), HasSubstr("empty"))) << length;
  }
}

TEST(SafetensorsHeader, header_length_beyond_reason) {
  EXPECT_THAT(complaint(length_bytes(~std::uint64_t{0}) + "{}"), AllOf(HasSubstr("18446744073709551615"), HasSubstr("104857600")));
  EXPECT_THAT(complaint(length_bytes((100u << 20) + 1) + "{}"), HasSubstr("at most"));
  EXPECT_THAT(complaint(length_bytes(100u << 20) + "{}"), HasSubstr("truncated"));
  EXPECT_NE(complaint(length_bytes(0)), "");
}

TEST(SafetensorsHeader, head_shorter_than_the_header_it_announces) {
  const std::string bytes = file_of("{}", "");
  EXPECT_THROW(parse_safetensors_header(std::as_bytes(std::span(bytes)).first(9), bytes.size(), "test", nullptr), DataError);
}

TEST(SafetensorsHeader, header_that_is_not_json) {
  EXPECT_THAT(complaint("[]", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(complaint(" {}", 0), HasSubstr("no JSON object"));  // the format wants '{' first
  EXPECT_THAT(complaint("{\"a\":", 0), AllOf(HasSubstr("is not JSON"), HasSubstr("at byte 5")));
  EXPECT_THAT(complaint("{}\0\0"s, 0), HasSubstr("NUL"));
  EXPECT_THAT(complaint("{\"\xff\":1}", 0), HasSubstr("is not JSON"));
  EXPECT_THAT(complaint("{" + std::string(5000, '['), 0), HasSubstr("nested deeper"));
}

TEST(SafetensorsHeader, duplicate_names) {
  EXPECT_THAT(complaint(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})", 2),
              HasSubstr("names 'a' twice"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":"I8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("names 'dtype' twice"));
}

TEST(SafetensorsHeader, overlap_gap_and_bytes_nobody_names) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"I8","shape":[4],"data_offsets":)" + first + R"(},"b":{"dtype":"I8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(complaint(two("[0,4]", "[4,8]"), 8), "");
  EXPECT_EQ(complaint(two("[4,8]", "[0,4]"), 8), "");
  EXPECT_THAT(complaint(two("[0,4]", "[3,7]"), 7), HasSubstr("'b' overlaps 'a' by 1 bytes"));
  EXPECT_THAT(complaint(two("[0,4]", "[0,4]"), 4), HasSubstr("overlaps"));
  EXPECT_THAT(complaint(two("[0,4]", "[5,9]"), 9), HasSubstr("gap of 1 bytes"));
  EXPECT_THAT(complaint(two("[1,5]", "[5,9]"), 9), HasSubstr("gap of 1 bytes"));
  EXPECT_THAT(complaint(two("[0,4]", "[4,8]"), 9), HasSubstr("1 bytes follow the last tensor"));
  EXPECT_THAT(complaint(two("[0,4]", "[4,8]"), 7), HasSubstr("truncated"));
  EXPECT_THAT(complaint("{}", 1), HasSubstr("1 bytes follow"));
}

TEST(SafetensorsHeader, sizes_that_overflow_or_disagree) {
  const auto one = [](const std::string& shape, const std::string& offsets) {
    return R"({"t":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_THAT(complaint(one("[4294967296,4294967296]", "[0,0]"), 0), HasSubstr("overflows"));  // 2^64 elements are 0 modulo 2^64
  EXPECT_THAT(complaint(one("[2305843009213693952]", "[0,0]"), 0), HasSubstr("overflows"));    // 2^61 * 4 bytes wraps to 2^63
  EXPECT_THAT(complaint(one("[9223372036854775808]", "[0,0]"), 0), HasSubstr("2^63"));
  EXPECT_THAT(complaint(one("[2]", "[0,4]"), 4), AllOf(HasSubstr("'t'"), HasSubstr("needs 8 bytes but has 4")));
  EXPECT_THAT(complaint(one("[1]", "[4,0]"), 4), HasSubstr("before it begins"));
  EXPECT_THAT(complaint(one("[1]", "[0,18446744073709551615]"), 4), HasSubstr("2^63"));
  EXPECT_THAT(complaint(one("[1]", "[9223372036854775803,9223372036854775807]"), 4), HasSubstr("truncated"));
  EXPECT_THAT(complaint(one("[-1]", "[0,4]"), 4), HasSubstr("has -1"));
  EXPECT_THAT(complaint(one("[1.0]", "[0,4]"), 4), HasSubstr("has 1.0"));
  EXPECT_THAT(complaint(one("[true]", "[0,4]"), 4), HasSubstr("has true"));
}

TEST(SafetensorsHeader, fields_of_the_wrong_kind) {
  EXPECT_THAT(complaint(R"({"t":3})", 0), HasSubstr("'t'"));
  EXPECT_THAT(complaint(R"({"t":{}})", 0), HasSubstr("has no \"dtype\""));
  EXPECT_THAT(complaint(R"({"t":{"dtype":7,"shape":[],"data_offsets":[0,1]}})", 1), HasSubstr("\"dtype\""));
  EXPECT_THAT(complaint(R"({"t":{"dtype":"I8","shape":3,"data_offsets":[0,1]}})", 1), HasSubstr("\"shape\""));
  EXPECT_THAT(complaint(R"({"t":{"dtype":"I8","shape":[1]}})", 1), HasSubstr("\"data_offsets\""));
  EXPECT_THAT(complaint(R"({"t":{"dtype":"I8","shape":[1],"data_offsets":[0,1,2]}})", 1), HasSubstr("pair"));
  EXPECT_THAT(complaint(R"({"__metadata__":[]})", 0), HasSubstr("__metadata__"));
  EXPECT_THAT(complaint(R"({"__metadata__":{"a":1}})", 0), HasSubstr("'a'"));
}

TEST(SafetensorsHeader, seven_axes_are_unsupported_not_a_crash) {
  const std::string bytes = file_of(R"({"t":{"dtype":"I8","shape":[1,1,1,1,1,1,1],"data_offsets":[0,1]}})", "x");
  EXPECT_THAT(message_of<Unsupported>([&] { parse(bytes); }), AllOf(HasSubstr("'t'"), HasSubstr("7 axes")));
  EXPECT_EQ(parse(file_of(R"({"t":{"dtype":"I8","shape":[1,1,1,1,1,1],"data_offsets":[0,1]}})", "x")).at(0).shape.rank(), 6);
}

TEST(SafetensorsHeader, hostile_name_does_not_flood_the_message) {
  const std::string message = complaint("{\"" + std::string(100'000, 'n') + "\\n\":3}", 0);
  EXPECT_FALSE(message.empty());
  EXPECT_LT(message.size(), 400u);
}

// ---- files ----

TEST(SafetensorsFile, missing_file_and_folder) {
  const TemporaryFolder folder;
  EXPECT_THROW(SafetensorsFile(folder.path() / "absent.safetensors"), InvalidArgument);
  EXPECT_THROW(SafetensorsFile(folder.path() / ""), InvalidArgument);
}

TEST(SafetensorsFile, error_names_the_file) {
  const TemporaryFolder folder;
  const auto path = folder.write("broken.safetensors", "<html>");
  EXPECT_THAT(message_of<DataError>([&] { SafetensorsFile file(path); }), AllOf(HasSubstr("broken.safetensors"), HasSubstr("HTML")));
}

TEST(SafetensorsFile, tensor_is_a_window_onto_the_file) {
  const TemporaryFolder folder;
  std::string header = R"({"t":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::int32_t values[4] = {1, -2, 3, -4};
  const auto path = folder.write("t.safetensors", file_of(header, std::string(reinterpret_cast<const char*>(values), 16)));
  const SafetensorsFile file(path);
  const TensorView view = file.tensor("t");
  EXPECT_EQ(view.dtype, DType::s32);
  EXPECT_EQ(view.shape, (Shape{2, 2}));
  EXPECT_EQ(std::memcmp(view.data, values, 16), 0);
  EXPECT_EQ(file.tensor("t").data, view.data);
  file.release("t");
  file.release("absent");
  EXPECT_EQ(view.as<std::int32_t>()[3], -4);  // read again from disk
}

TEST(SafetensorsFile, absent_and_unreadable_tensors_have_clear_errors) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.safetensors", file_of(R"({"u":{"dtype":"U32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.find("absent"), nullptr);
  ASSERT_NE(file.find("u"), nullptr);
  EXPECT_THAT(message_of<DataError>([&] { file.tensor("absent"); }), AllOf(HasSubstr("t.safetensors"), HasSubstr("'absent'")));
  EXPECT_THAT(message_of<DataError>([&] { file.tensor("u"); }), AllOf(HasSubstr("'u'"), HasSubstr("U32")));
}

TEST(SafetensorsFile, misaligned_tensor_is_copied_once_also_by_many_threads) {
  const TemporaryFolder folder;
  std::string header =
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"f":{"dtype":"F64","shape":[3],"data_offsets":[1,25]},"e":{"dtype":"F32","shape":[0],"data_offsets":[25,25]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const double values[3] = {1.5, -2.25, 1e300};
  const auto path = folder.write("t.safetensors", file_of(header, "x" + std::string(reinterpret_cast<const char*>(values), 24)));
  const SafetensorsFile file(path);
  std::vector<void*> data(8);
  std::vector<std::thread> threads;
  for (void*& seen : data) threads.emplace_back([&] { seen = file.tensor("f").data; });
  for (std::thread& thread : threads) thread.join();
  for (void* seen : data) EXPECT_EQ(seen, data[0]);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data[0]) % alignof(double), 0u);
  EXPECT_EQ(std::memcmp(data[0], values, sizeof values), 0);
  EXPECT_EQ(file.tensor("e").bytes(), 0u);
}

TEST(SafetensorsFile, real_checkpoint_opens) {
  const SafetensorsFile file(std::filesystem::path(OCTAVO_SOURCE_DIR) / "tests/golden/data/tiny-hd64/expected.safetensors");
  ASSERT_NE(file.find("tokens.0"), nullptr);
  EXPECT_EQ(file.tensor("noise").shape, (Shape{1, 24, 32}));
}

}  // namespace
}  // namespace octavo
