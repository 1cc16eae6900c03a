// The GGUF container: what is read, and one clear error for each way in which a file can be broken.
#include "io/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "octavo/error.h"
#include "unit/formats/gguf_bytes.h"

namespace octavo {
namespace {

using formats::GgufBytes;
using ::testing::HasSubstr;

std::vector<GgufEntry> parse(const GgufBytes& bytes, GgufMetadata* metadata = nullptr) {
  return parse_gguf_header(std::as_bytes(std::span(bytes.text)), "file 'x.gguf'", metadata);
}

template <class E = DataError>
void expect_error(const GgufBytes& bytes, const std::string& part) {
  try {
    parse(bytes);
    FAIL() << "accepted; expected an error with: " << part;
  } catch (const E& error) {
    EXPECT_THAT(error.what(), HasSubstr(part));
    EXPECT_THAT(error.what(), HasSubstr("file 'x.gguf'"));
  }
}

// Two tensors: F32 [2, 3] and Q8_0 [1, 64].
GgufBytes two_tensors() {
  GgufBytes b = GgufBytes::header(2, 1);
  b.key("general.architecture", 8).string("sd");
  b.tensor("a.weight", {3, 2}, 0, 0).tensor("b.weight", {64, 1}, 8, 32);
  b.align(32).zeros(32 + 68);
  return b;
}

TEST(Gguf, tensors_and_their_places) {
  GgufMetadata metadata;
  const GgufBytes bytes = two_tensors();
  const std::vector<GgufEntry> entries = parse(bytes, &metadata);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "a.weight");
  EXPECT_EQ(entries[0].shape, (Shape{2, 3}));  // slowest first
  EXPECT_EQ(entries[0].bytes, 24u);
  EXPECT_EQ(entries[1].type->name, "Q8_0");
  EXPECT_EQ(entries[1].bytes, 68u);
  EXPECT_EQ(entries[1].offset, entries[0].offset + 32);
  EXPECT_EQ(entries[1].offset + entries[1].bytes, bytes.text.size());
  EXPECT_EQ(metadata.at("general.architecture"), "sd");
}

TEST(Gguf, every_kind_of_value_is_passed_over) {
  GgufBytes b = GgufBytes::header(0, 8);
  b.key("u8", 0).raw<std::uint8_t>(7);
  b.key("bool", 7).raw<std::uint8_t>(1);
  b.key("f32", 6).raw<float>(0.5f);
  b.key("s64", 11).raw<std::int64_t>(-5);
  b.key("text", 8).string("häß");
  b.key("numbers", 9).raw<std::uint32_t>(5).raw<std::uint64_t>(2).raw<std::int32_t>(1).raw<std::int32_t>(2);
  b.key("texts", 9).raw<std::uint32_t>(8).raw<std::uint64_t>(2).string("a").string("");
  b.key("nested", 9).raw<std::uint32_t>(9).raw<std::uint64_t>(1).raw<std::uint32_t>(0).raw<std::uint64_t>(1).raw<std::uint8_t>(1);
  GgufMetadata metadata;
  EXPECT_TRUE(parse(b, &metadata).empty());
  EXPECT_EQ(metadata.at("u8"), "7");
  EXPECT_EQ(metadata.at("bool"), "true");
  EXPECT_EQ(metadata.at("f32"), "0.5");
  EXPECT_EQ(metadata.at("s64"), "-5");
  EXPECT_EQ(metadata.at("text"), "häß");
  EXPECT_EQ(metadata.at("texts"), "[2 values]");
}

TEST(Gguf, alignment_of_the_file_itself) {
  GgufBytes b = GgufBytes::header(1, 1);
  b.key("general.alignment", 4).raw<std::uint32_t>(8);
  b.tensor("a", {1}, 0, 0).align(8).zeros(4);
  EXPECT_EQ(parse(b)[0].offset % 8, 0u);
  for (const std::uint32_t bad : {0u, 4u, 12u, 1u << 30}) {
    GgufBytes wrong = GgufBytes::header(0, 1);
    wrong.key("general.alignment", 4).raw(bad);
    expect_error(wrong, "general.alignment");
  }
}

TEST(Gguf, truncated_anywhere) {
  const GgufBytes whole = two_tensors();
  for (std::size_t size = 1; size < whole.text.size(); ++size) {
    GgufBytes cut;
    cut.text = whole.text.substr(0, size);
    EXPECT_THROW(parse(cut), DataError) << size;
  }
  GgufBytes cut = two_tensors();
  cut.text.pop_back();
  expect_error(cut, "truncated");
}

TEST(Gguf, not_a_gguf_file) {
  GgufBytes b;
  expect_error(b, "is empty");
  b.text = "<!DOCTYPE html><html>";
  expect_error(b, "HTML");
  b.text = "GGML....";
  expect_error(b, "does not begin with 'GGUF'");
}

TEST(Gguf, versions_that_are_not_read) {
  GgufBytes b;
  b.text = "GGUF";
  b.raw<std::uint32_t>(1).zeros(16);
  expect_error<Unsupported>(b, "version 1");
  b.text = "GGUF";
  b.raw<std::uint32_t>(0x03000000).zeros(16);
  expect_error<Unsupported>(b, "big-endian");
}

TEST(Gguf, type_39_has_a_name_and_type_99_has_none) {
  GgufBytes b = GgufBytes::header(1, 0);
  b.tensor("a", {32}, 39, 0).align(32).zeros(17);
  EXPECT_EQ(parse(b)[0].type->name, "MXFP4");
  b = GgufBytes::header(1, 0);
  b.tensor("layers.0.w", {32}, 99, 0).align(32).zeros(64);
  expect_error(b, "type id 99");
}

TEST(Gguf, counts_that_the_file_cannot_hold) {
  expect_error(GgufBytes::header(1ull << 60, 0), "truncated");
  expect_error(GgufBytes::header(0, 1ull << 60), "truncated");
  GgufBytes b = GgufBytes::header(0, 1);
  b.key("k", 9).raw<std::uint32_t>(4).raw<std::uint64_t>(1ull << 62);
  expect_error(b, "more than the file has bytes");
  b = GgufBytes::header(0, 1);
  b.key("k", 8).raw<std::uint64_t>(1ull << 62);
  expect_error(b, "bytes long");
}

TEST(Gguf, extents_that_cannot_be) {
  GgufBytes b = GgufBytes::header(1, 0);
  b.tensor("a", {1ull << 40, 1ull << 40}, 0, 0).align(32).zeros(64);
  expect_error(b, "overflows");
  b = GgufBytes::header(1, 0);
  b.tensor("a", {0, 4}, 0, 0);
  expect_error(b, "extent of 0");
  b = GgufBytes::header(1, 0);
  b.tensor("a", {33, 2}, 8, 0).align(32).zeros(256);
  expect_error(b, "do not fill the blocks of 32");
  b = GgufBytes::header(1, 0);
  b.tensor("a", {1, 1, 1, 1, 1, 1, 1}, 0, 0);
  expect_error<Unsupported>(b, "axes");
}

TEST(Gguf, places_that_cannot_be) {
  GgufBytes b = GgufBytes::header(2, 0);
  b.tensor("a", {16}, 0, 0).tensor("b", {16}, 0, 32).align(32).zeros(256);
  expect_error(b, "overlaps 'a' by 32 bytes");
  b = GgufBytes::header(1, 0);
  b.tensor("a", {1}, 0, 4).align(32).zeros(64);
  expect_error(b, "not a multiple of 32");
  b = GgufBytes::header(1, 0);
  b.tensor("a", {1}, 0, 1ull << 62).align(32).zeros(64);
  expect_error(b, "truncated");
}

TEST(Gguf, twice_the_same_name) {
  GgufBytes b = GgufBytes::header(2, 0);
  b.tensor("a", {1}, 0, 0).tensor("a", {1}, 0, 32).align(32).zeros(64);
  expect_error(b, "'a' occurs twice");
  b = GgufBytes::header(0, 2);
  b.key("k", 0).raw<std::uint8_t>(1).key("k", 0).raw<std::uint8_t>(1);
  expect_error(b, "key 'k' occurs twice");
}

TEST(Gguf, values_of_unknown_type_or_too_deep) {
  GgufBytes b = GgufBytes::header(0, 1);
  b.key("k", 13).zeros(8);
  expect_error(b, "value type 13");
  b = GgufBytes::header(0, 1);
  b.key("k", 9);
  for (int depth = 0; depth < 8; ++depth) b.raw<std::uint32_t>(9).raw<std::uint64_t>(1);
  expect_error(b, "nests arrays");
}

}  // namespace
}  // namespace octavo
