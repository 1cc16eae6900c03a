#include "io/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <random>

#include "octavo/error.h"
#include "unit/io/temporary_folder.h"

namespace octavo {
namespace {

using testing::HasSubstr;
using testing_files::message_of;
using testing_files::TemporaryFolder;

Image picture(int width, int height, unsigned seed = 1) {
  Image image{.width = width, .height = height};
  std::mt19937 random(seed);
  for (int i = 0; i < width * height * 3; ++i) image.rgb.push_back(std::uint8_t(i / 5 + (random() & 15u)));
  return image;
}

std::string complaint(std::span<const std::byte> bytes) {
  return message_of<DataError>([&] { decode_png(bytes, "test.png"); });
}

// A PNG of any kind, by libpng's own plain interface: the writer under test makes RGB only.
std::vector<std::byte> foreign_png(int width, int height, int bit_depth, int color_type, const std::vector<std::uint8_t>& samples, bool is_interlaced = false) {
  std::vector<std::byte> bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp p, png_bytep data, std::size_t size) {
        auto& to = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(p));
        to.insert(to.end(), reinterpret_cast<std::byte*>(data), reinterpret_cast<std::byte*>(data) + size);
      },
      nullptr);
  png_set_IHDR(png, info, png_uint_32(width), png_uint_32(height), bit_depth, color_type, is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  const png_color palette[4] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {9, 8, 7}};
  if (color_type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 4);
  png_write_info(png, info);
  const std::size_t row_bytes = png_get_rowbytes(png, info);
  std::vector<png_bytep> rows;
  for (int y = 0; y < height; ++y) rows.push_back(const_cast<png_bytep>(samples.data()) + std::size_t(y) * row_bytes);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

TEST(Png, picture_and_texts_survive) {
  for (const auto& [width, height] : std::vector<std::pair<int, int>>{{1, 1}, {3, 2}, {64, 96}, {257, 1}, {1, 300}}) {
    Image image = picture(width, height);
    image.metadata = {
        {"Software", "octavo 0.1.0"}, {"prompt", "naïve café 你好 😀\nsecond line \"quoted\" \\ tab\t"}, {"empty", ""}, {"ascii", std::string(100'000, 'x')}};
    const Image read = decode_png(encode_png(image), "test.png");
    EXPECT_EQ(read.width, width);
    EXPECT_EQ(read.height, height);
    EXPECT_EQ(read.rgb, image.rgb);
    EXPECT_EQ(read.metadata, image.metadata);
  }
}

TEST(Png, same_picture_same_bytes) { EXPECT_EQ(encode_png(picture(40, 30)), encode_png(picture(40, 30))); }

TEST(Png, texts_are_written_in_key_order_before_the_pixels) {
  Image image = picture(2, 2);
  image.metadata = {{"b", "ascii"}, {"a", "é"}};
  const auto bytes = encode_png(image);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto utf8 = text.find("iTXta"), ascii = text.find("tEXtb"), pixels = text.find("IDAT");
  ASSERT_NE(utf8, text.npos);
  ASSERT_NE(ascii, text.npos);
  EXPECT_LT(utf8, ascii);
  EXPECT_LT(ascii, pixels);
}

TEST(Png, pictures_and_texts_that_cannot_be_written) {
  const auto refuses = [](const Image& image) { return message_of<InvalidArgument>([&] { encode_png(image); }); };
  EXPECT_THAT(refuses(Image{}), HasSubstr("0x0"));
  Image short_of_bytes = picture(4, 4);
  short_of_bytes.rgb.pop_back();
  EXPECT_THAT(refuses(short_of_bytes), HasSubstr("needs 48 bytes of RGB but has 47"));
  for (const std::string& key :
       {std::string(), std::string(80, 'k'), std::string(" k"), std::string("k "), std::string("a  b"), std::string("é"), std::string("a\n")}) {
    Image image = picture(1, 1);
    image.metadata[key] = "x";
    EXPECT_NE(refuses(image), "") << key;
  }
  for (const std::string& text : {std::string("a\0b", 3), std::string("\xff")}) {
    Image image = picture(1, 1);
    image.metadata["k"] = text;
    EXPECT_THAT(refuses(image), HasSubstr("at byte"));
  }
}

TEST(Png, every_truncation_is_an_error) {
  Image image = picture(17, 9);
  image.metadata["k"] = "é";
  const auto bytes = encode_png(image);
  for (std::size_t length = 0; length < bytes.size(); ++length) ASSERT_NE(complaint(std::span(bytes).first(length)), "") << length;
}

TEST(Png, every_flipped_bit_is_an_error) {
  // Checksums cover all but the signature and the lengths, and those are checked by what follows them.
  Image image = picture(9, 5);
  image.metadata["k"] = "text";
  const auto bytes = encode_png(image);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    ASSERT_NE(complaint(damaged), "") << i;
  }
}

TEST(Png, header_that_promises_a_gigabyte_is_refused_unread) {
  auto bytes = encode_png(picture(1, 1));
  const auto set_size = [&](std::uint32_t width, std::uint32_t height) {
    for (int i = 0; i < 4; ++i) {
      bytes[std::size_t(16 + i)] = std::byte(width >> (24 - 8 * i));
      bytes[std::size_t(20 + i)] = std::byte(height >> (24 - 8 * i));
    }
    std::uint32_t crc = ~0u;  // of "IHDR" and its 13 bytes; PNG specification, annex D
    for (std::size_t i = 12; i < 29; ++i) {
      crc ^= std::uint32_t(bytes[i]);
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    for (int i = 0; i < 4; ++i) bytes[std::size_t(29 + i)] = std::byte(~crc >> (24 - 8 * i));
  };
  set_size(1, 1);
  ASSERT_EQ(complaint(bytes), "");  // the checksum above is right
  set_size(16384, 16384);
  EXPECT_THAT(complaint(bytes), HasSubstr("cannot hold a picture of 16384x16384"));
  set_size(16385, 1);
  EXPECT_NE(complaint(bytes), "");
  set_size(0xffffffffu, 0xffffffffu);
  EXPECT_NE(complaint(bytes), "");
}

TEST(Png, chunk_that_claims_gigabytes_is_refused_unread) {
  std::vector<std::byte> png = encode_png(picture(4, 4));
  // The first chunk after the header: 8 bytes of signature, 25 of IHDR.
  for (const std::size_t i : {33, 34, 35, 36}) png[i] = std::byte{0x6f};
  try {
    decode_png(png, "file 'x.png'");
    FAIL() << "was read";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the chunk at byte 33 claims 1869573999 bytes"));
  }
}

// The same at the very end, where a length and a kind fit and no checksum does.
TEST(Png, last_chunk_that_claims_gigabytes_is_refused_unread) {
  for (const std::size_t tail : {8, 9, 11}) {
    std::vector<std::byte> png = encode_png(picture(4, 4));
    png.resize(png.size() - 12);  // without the end chunk
    const std::size_t at = png.size();
    png.resize(at + tail, std::byte{0x6f});
    try {
      decode_png(png, "file 'x.png'");
      FAIL() << "was read";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("the chunk at byte " + std::to_string(at) + " claims 1869573999 bytes but 0 are left"));
    }
  }
}

TEST(Png, other_kinds_become_rgb) {
  const auto rgb = [](const std::vector<std::byte>& bytes) { return decode_png(bytes, "test.png").rgb; };
  using Bytes = std::vector<std::uint8_t>;
  EXPECT_EQ(rgb(foreign_png(2, 1, 8, PNG_COLOR_TYPE_GRAY, {7, 200})), (Bytes{7, 7, 7, 200, 200, 200}));
  EXPECT_EQ(rgb(foreign_png(2, 1, 8, PNG_COLOR_TYPE_PALETTE, {2, 3})), (Bytes{0, 0, 255, 9, 8, 7}));
  EXPECT_EQ(rgb(foreign_png(8, 1, 1, PNG_COLOR_TYPE_GRAY, {0x80})), (Bytes{255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  // over black: 200 * 128 / 255 = 100.39, 100 * 0 = 0
  EXPECT_EQ(rgb(foreign_png(2, 1, 8, PNG_COLOR_TYPE_RGBA, {200, 100, 255, 128, 100, 100, 100, 0})), (Bytes{100, 50, 128, 0, 0, 0}));
  EXPECT_EQ(rgb(foreign_png(1, 1, 8, PNG_COLOR_TYPE_GA, {200, 255})), (Bytes{200, 200, 200}));
  const Image image = picture(13, 11);
  EXPECT_EQ(rgb(foreign_png(13, 11, 8, PNG_COLOR_TYPE_RGB, image.rgb, true)), image.rgb);  // interlaced
  EXPECT_THAT(complaint(foreign_png(1, 1, 16, PNG_COLOR_TYPE_RGB, {1, 2, 3, 4, 5, 6})), HasSubstr("16 bits"));
}

TEST(Png, bytes_that_are_no_png) {
  const auto of = [](std::string_view text) { return complaint(std::as_bytes(std::span(text))); };
  EXPECT_THAT(of(""), HasSubstr("is empty"));
  EXPECT_THAT(of("hello, this is text"), HasSubstr("is not a PNG"));
  EXPECT_THAT(of("<html><body>"), HasSubstr("HTML"));
}

TEST(SavePng, file_appears_whole_and_reads_back) {
  const TemporaryFolder folder;
  const Image image = picture(20, 10);
  save_png(image, (folder.path() / "a.png").string());
  EXPECT_EQ(read_png(folder.path() / "a.png").rgb, image.rgb);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(SavePng, path_that_cannot_be_written) {
  const TemporaryFolder folder;
  EXPECT_THROW(save_png(picture(2, 2), (folder.path() / "absent" / "a.png").string()), InvalidArgument);
  EXPECT_THROW(save_png(picture(2, 2), folder.path().string()), InvalidArgument);
  EXPECT_THROW(save_png(picture(2, 2), ""), InvalidArgument);
  EXPECT_THROW(save_png(Image{}, (folder.path() / "a.png").string()), InvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(read_png(folder.path() / "absent.png"), InvalidArgument);
}

TEST(SavePng, dash_is_standard_output) {
  testing::internal::CaptureStdout();
  const Image image = picture(5, 4);
  save_png(image, "-");
  const std::string written = testing::internal::GetCapturedStdout();
  EXPECT_EQ(decode_png(std::as_bytes(std::span(written)), "stdout").rgb, image.rgb);
}

TEST(Png, golden_picture_of_the_reference_reads) {
  const Image image = read_png(std::filesystem::path(OCTAVO_SOURCE_DIR) / "tests/golden/data/demo/demo-expected.png");
  EXPECT_GT(image.width, 0);
  EXPECT_EQ(image.rgb.size(), std::size_t(image.width) * std::size_t(image.height) * 3);
}

}  // namespace
}  // namespace octavo
