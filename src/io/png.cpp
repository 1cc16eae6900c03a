#include "io/png.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "io/foreign_file.h"
#include "io/json.h"
#include "io/utf8.h"
#include "octavo/error.h"

// libpng reports errors by longjmp. So every function that calls setjmp here keeps all its state in the object that its caller owns:
// nothing with a destructor is skipped, and no local changes between the jump and its landing.

namespace octavo {
namespace {

// Level 6 makes files 15 % smaller and takes 6 times as long (1024² photo-like RGB: 142 ms and 1,587 KB at 3; 481 ms and 1,399 KB at 6).
constexpr int kZlibLevel = 3;

// What a text chunk may inflate to: it holds a request.
constexpr png_alloc_size_t kMaxChunkBytes = 16u << 20;

struct Session {
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[200] = {};
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* session = static_cast<Session*>(png_get_error_ptr(png));
  std::snprintf(session->message, sizeof session->message, "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}  // what is only suspicious (a colour profile, say) does not touch the pixels

// ---- writing ----

struct Encoder : Session {
  explicit Encoder(const Image& picture) : image(picture) {}
  ~Encoder() { png_destroy_write_struct(&png, &info); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  const Image& image;
  std::vector<png_text> texts{};
  std::vector<png_bytep> rows{};
  std::vector<std::byte> bytes{};
};

void append(png_structp png, png_bytep data, std::size_t size) {
  auto* encoder = static_cast<Encoder*>(png_get_io_ptr(png));
  bool is_full = false;
  try {
    const auto* from = reinterpret_cast<const std::byte*>(data);
    encoder->bytes.insert(encoder->bytes.end(), from, from + size);
  } catch (const std::bad_alloc&) {
    is_full = true;  // an exception may not cross libpng
  }
  if (is_full) png_error(png, "out of memory");
}

void check_encodable(const Image& image) {
  if (image.width < 1 || image.height < 1 || image.width > kMaxPngSide || image.height > kMaxPngSide) {
    throw InvalidArgument(fmt::format("png: a picture of {}x{} cannot be written; sides go from 1 to {}", image.width, image.height, kMaxPngSide));
  }
  const std::size_t needed = std::size_t(image.width) * std::size_t(image.height) * 3;
  if (image.rgb.size() != needed) {
    throw InvalidArgument(fmt::format("png: a picture of {}x{} needs {} bytes of RGB but has {}", image.width, image.height, needed, image.rgb.size()));
  }
  for (const auto& [key, text] : image.metadata) {
    const bool is_printable = std::all_of(key.begin(), key.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
    if (key.empty() || key.size() > 79 || !is_printable || key.front() == ' ' || key.back() == ' ' || key.find("  ") != key.npos) {
      throw InvalidArgument(
          fmt::format("png: '{}' cannot be the key of a text chunk; use 1 to 79 printable ASCII characters, single spaces inside only", excerpt(key)));
    }
    if (const std::size_t bad = first_invalid_byte(text); bad != text.npos) {
      throw InvalidArgument(fmt::format("png: the text of '{}' has NUL or invalid UTF-8 at byte {}", key, bad));
    }
  }
}

bool run(Encoder& encoder) {
  if (setjmp(png_jmpbuf(encoder.png)) != 0) return false;
  png_structp png = encoder.png;
  png_set_write_fn(png, &encoder, append, nullptr);
  png_set_compression_level(png, kZlibLevel);
  png_set_IHDR(png, encoder.info, png_uint_32(encoder.image.width), png_uint_32(encoder.image.height), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_text(png, encoder.info, encoder.texts.data(), int(encoder.texts.size()));
  png_write_info(png, encoder.info);
  png_write_image(png, encoder.rows.data());
  png_write_end(png, nullptr);
  return true;
}

// ---- reading ----

struct Decoder : Session {
  explicit Decoder(std::span<const std::byte> source) : left(source) {}
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  std::span<const std::byte> left;
  std::size_t stored_row_bytes = 0;  // before the conversion to RGBA
  std::vector<std::uint8_t> rgba{};
  std::vector<png_bytep> rows{};
};

void take(png_structp png, png_bytep data, std::size_t size) {
  auto* decoder = static_cast<Decoder*>(png_get_io_ptr(png));
  if (size > decoder->left.size()) png_error(png, "the file ends too early");
  std::memcpy(data, decoder->left.data(), size);
  decoder->left = decoder->left.subspan(size);
}

// Throws DataError if a chunk claims more bytes than are left. libpng allocates and clears what a length says, up to 2 GiB, before it reads the bytes.
void check_chunk_lengths(std::span<const std::byte> bytes, const std::string& who) {
  constexpr std::size_t kSignature = 8, kBefore = 8, kAround = 12;  // length and kind before a chunk's bytes, checksum after
  for (std::size_t at = kSignature; at + kBefore <= bytes.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | std::to_integer<std::size_t>(bytes[at + i]);
    const std::size_t left = bytes.size() - std::min(bytes.size(), at + kAround);
    if (at + kAround > bytes.size() || length > left)
      throw DataError(fmt::format("{}: the chunk at byte {} claims {} bytes but {} are left; the file is truncated or damaged", who, at, length, left));
    if (std::memcmp(bytes.data() + at + 4, "IEND", 4) == 0) return;
    at += kAround + length;
  }
}

// Reads up to the pixels and asks libpng for 8-bit RGBA, whatever the file holds.
bool read_header(Decoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_structp png = decoder.png;
  png_set_read_fn(png, &decoder, take);
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_user_limits(png, kMaxPngSide, kMaxPngSide);
  png_set_chunk_malloc_max(png, kMaxChunkBytes);
  png_read_info(png, decoder.info);
  if (png_get_bit_depth(png, decoder.info) > 8) png_error(png, "16 bits a sample; only 8-bit pictures are read");
  decoder.stored_row_bytes = png_get_rowbytes(png, decoder.info);
  png_set_expand(png);
  png_set_gray_to_rgb(png);
  png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  return true;
}

bool read_pixels(Decoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_image(decoder.png, decoder.rows.data());
  png_read_end(decoder.png, decoder.info);  // text chunks may follow the pixels
  return true;
}

std::string utf8_from_latin1(std::string_view text) {
  std::string utf8;
  for (const char c : text) append_utf8(utf8, static_cast<unsigned char>(c));  // Latin-1 is the first 256 code points
  return utf8;
}

std::map<std::string, std::string> texts_of(const Decoder& decoder, const std::string& who) {
  png_textp texts = nullptr;
  int count = 0;
  png_get_text(decoder.png, decoder.info, &texts, &count);
  std::map<std::string, std::string> metadata;
  for (int i = 0; i < count; ++i) {
    const bool is_utf8 = texts[i].compression == PNG_ITXT_COMPRESSION_NONE || texts[i].compression == PNG_ITXT_COMPRESSION_zTXt;
    const std::string_view text = texts[i].text == nullptr ? std::string_view() : std::string_view(texts[i].text);
    const std::string key = utf8_from_latin1(texts[i].key);
    if (is_utf8 && first_invalid_byte(text) != text.npos) throw DataError(fmt::format("{}: the text chunk '{}' is not valid UTF-8", who, key));
    metadata[key] = is_utf8 ? std::string(text) : utf8_from_latin1(text);
  }
  return metadata;
}

void set_rows(std::vector<png_bytep>& rows, const std::uint8_t* pixels, std::size_t height, std::size_t row_bytes) {
  rows.resize(height);
  for (std::size_t y = 0; y < height; ++y) rows[y] = const_cast<png_bytep>(pixels) + y * row_bytes;  // libpng does not write to rows it encodes
}

}  // namespace

std::vector<std::byte> encode_png(const Image& image) {
  check_encodable(image);
  Encoder encoder(image);
  encoder.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, static_cast<Session*>(&encoder), on_error, on_warning);
  if (encoder.png != nullptr) encoder.info = png_create_info_struct(encoder.png);
  if (encoder.info == nullptr) throw OutOfMemory("png: the encoder could not be created");
  for (const auto& [key, text] : image.metadata) {
    const bool is_ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    png_text chunk{};
    chunk.compression = is_ascii ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
    chunk.key = const_cast<char*>(key.c_str());
    chunk.text = const_cast<char*>(text.c_str());
    chunk.text_length = text.size();
    chunk.itxt_length = is_ascii ? 0 : text.size();
    encoder.texts.push_back(chunk);
  }
  set_rows(encoder.rows, image.rgb.data(), std::size_t(image.height), std::size_t(image.width) * 3);
  if (!run(encoder)) throw InternalError(fmt::format("png: encoding {}x{} failed ({})", image.width, image.height, encoder.message));
  return std::move(encoder.bytes);
}

Image decode_png(std::span<const std::byte> bytes, const std::string& who) {
  constexpr std::size_t kSignatureBytes = 8;
  if (bytes.empty()) throw DataError(fmt::format("{}: is empty; a PNG picture was expected", who));
  if (bytes.size() < kSignatureBytes || png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, kSignatureBytes) != 0) {
    const std::string kind = foreign_kind(bytes);
    throw DataError(fmt::format("{}: is not a PNG picture{}{}", who, kind.empty() ? "" : " but ", kind));
  }
  check_chunk_lengths(bytes, who);
  Decoder decoder(bytes);
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, static_cast<Session*>(&decoder), on_error, on_warning);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) throw OutOfMemory("png: the decoder could not be created");
  const auto damaged = [&] {
    return DataError(fmt::format("{}: this PNG cannot be read ({}); it is damaged or of an unusual kind", who, excerpt(decoder.message)));
  };

  if (!read_header(decoder)) throw damaged();
  const auto width = std::size_t(png_get_image_width(decoder.png, decoder.info));
  const auto height = std::size_t(png_get_image_height(decoder.png, decoder.info));
  if (png_get_rowbytes(decoder.png, decoder.info) != width * 4) throw InternalError(fmt::format("{}: the decoder does not give RGBA rows", who));
  // Deflate makes at most 1,032 bytes of one; a header that promises more lies, and a gigabyte need not be allocated to find out.
  if (decoder.stored_row_bytes * height / 1032 > bytes.size()) {
    throw DataError(fmt::format("{}: {} bytes cannot hold a picture of {}x{}; the file is truncated or damaged", who, bytes.size(), width, height));
  }
  decoder.rgba.resize(width * height * 4);
  set_rows(decoder.rows, decoder.rgba.data(), height, width * 4);
  if (!read_pixels(decoder)) throw damaged();

  Image image{.width = int(width), .height = int(height)};
  image.metadata = texts_of(decoder, who);
  // In place: a pixel's three bytes lie at or before its four, and a picture of many pixels is not there twice.
  for (std::size_t i = 0; i < width * height; ++i) {
    const std::uint8_t* pixel = &decoder.rgba[4 * i];
    const unsigned alpha = pixel[3];
    for (std::size_t c = 0; c < 3; ++c) decoder.rgba[3 * i + c] = std::uint8_t((pixel[c] * alpha + 127) / 255);  // over black; exact for alpha 255
  }
  decoder.rgba.resize(width * height * 3);
  image.rgb = std::move(decoder.rgba);
  return image;
}

Image read_png(const std::filesystem::path& path) {
  const MappedFile file(path);
  return decode_png(file.bytes(), fmt::format("file '{}'", path.string()));
}

void save_png(const Image& image, const std::string& path) {
  if (path.empty()) throw InvalidArgument("output: the path is empty; name a file, or '-' for standard output");
  const std::vector<std::byte> bytes = encode_png(image);
  if (path != "-") {
    AtomicFile file(path);
    file.write(bytes);
    file.commit();
  } else if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0) {
    throw DataError(fmt::format("output: writing {} bytes to standard output failed ({}); was the reader closed, or is the disk full?", bytes.size(),
                                std::strerror(errno)));
  }
}

}  // namespace octavo
