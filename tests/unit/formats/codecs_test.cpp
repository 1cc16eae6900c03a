// The number formats, byte by byte: small cases worked out by hand from the published rules.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "quant/formats/e4m3.h"
#include "quant/formats/gguf_blocks.h"
#include "quant/formats/int8.h"
#include "quant/formats/nf4.h"
#include "quant/quantize.h"
#include "tensor/dtype.h"

namespace octavo {
namespace {

std::vector<std::byte> f16_bytes(float value) {
  const f16 stored = to_f16(value);
  std::vector<std::byte> bytes(2);
  std::memcpy(bytes.data(), &stored.bits, 2);
  return bytes;
}

TEST(E4m3, values_at_the_edges) {
  EXPECT_EQ(e4m3_value(0x00), 0.0f);
  EXPECT_EQ(e4m3_value(0x01), 0x1p-9f);      // smallest subnormal
  EXPECT_EQ(e4m3_value(0x07), 7 * 0x1p-9f);  // largest subnormal
  EXPECT_EQ(e4m3_value(0x08), 0x1p-6f);      // smallest normal
  EXPECT_EQ(e4m3_value(0x38), 1.0f);
  EXPECT_EQ(e4m3_value(0x7e), 448.0f);  // largest; there is no infinity
  EXPECT_TRUE(std::isnan(e4m3_value(0x7f)));
  EXPECT_TRUE(std::isnan(e4m3_value(0xff)));
  EXPECT_TRUE(std::signbit(e4m3_value(0x80)));
}

TEST(E4m3, positive_codes_ascend_and_negative_ones_mirror_them) {
  for (int code = 0; code < 0x7e; ++code) EXPECT_LT(e4m3_value(std::uint8_t(code)), e4m3_value(std::uint8_t(code + 1)));
  for (int code = 0; code < 0x7f; ++code) EXPECT_EQ(e4m3_value(std::uint8_t(code | 0x80)), -e4m3_value(std::uint8_t(code)));
}

TEST(E4m3, equals_what_the_tensor_room_reads) {
  std::array<std::uint8_t, 256> codes{};
  for (int i = 0; i < 256; ++i) codes[std::size_t(i)] = std::uint8_t(i);
  std::array<float, 256> theirs{}, ours{};
  load_as_float(codes.data(), DType::f8_e4m3, 256, theirs.data());
  decode_e4m3(codes.data(), 256, 1.0f, ours.data());
  for (std::size_t i = 0; i < 256; ++i) EXPECT_TRUE(ours[i] == theirs[i] || (std::isnan(ours[i]) && std::isnan(theirs[i]))) << i;
}

TEST(E4m3, every_code_is_its_own_nearest) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) != 0x7f) {
      EXPECT_EQ(to_e4m3(e4m3_value(std::uint8_t(code))), code);
    }
  }
}

TEST(E4m3, rounds_to_the_nearest_and_halves_to_the_even_code) {
  for (int code = 0; code < 0x7e; ++code) {
    const float low = e4m3_value(std::uint8_t(code)), high = e4m3_value(std::uint8_t(code + 1)), middle = (low + high) / 2;  // exact
    EXPECT_EQ(to_e4m3(middle), code % 2 == 0 ? code : code + 1) << code;
    EXPECT_EQ(to_e4m3(std::nextafter(middle, 0.0f)), code) << code;
    EXPECT_EQ(to_e4m3(std::nextafter(middle, 1000.0f)), code + 1) << code;
    EXPECT_EQ(to_e4m3(-std::nextafter(middle, 1000.0f)), (code + 1) | 0x80) << code;
  }
  EXPECT_EQ(to_e4m3(1e30f), 0x7e);
  EXPECT_EQ(to_e4m3(std::numeric_limits<float>::infinity()), 0x7e);
  EXPECT_EQ(to_e4m3(std::nanf("")) & 0x7f, 0x7f);
}

TEST(E4m3, a_row_comes_back_within_a_sixteenth) {
  const std::vector<float> w{-3.0f, 0.001f, 0.5f, 2.9f, 0.0f};
  std::vector<std::uint8_t> codes(w.size());
  std::vector<float> back(w.size());
  const float scale = encode_e4m3(w.data(), 5, codes.data());
  decode_e4m3(codes.data(), 5, scale, back.data());
  // 3 fraction bits: half a step is a sixteenth of the value, or half of 2^-9 scales below the normal numbers.
  for (std::size_t k = 0; k < w.size(); ++k) EXPECT_NEAR(back[k], w[k], std::max(std::fabs(w[k]) / 16, scale * 0x1p-10f) * 1.0001f);
}

TEST(Nf4, every_code_is_its_own_nearest_and_the_rest_goes_to_the_nearest) {
  std::vector<float> w(kNf4Map, kNf4Map + 16);
  w.push_back(0.99f);
  w.push_back(-0.1f);
  std::vector<std::uint8_t> packed(9);
  float absmax = 0;
  encode_nf4(w.data(), 18, 64, packed.data(), &absmax);
  EXPECT_EQ(absmax, 1.0f);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(i % 2 == 0 ? packed[std::size_t(i / 2)] >> 4 : packed[std::size_t(i / 2)] & 15, i);
  EXPECT_EQ(packed[8], 15 << 4 | 6);
}

TEST(Nf4, blocks_have_their_own_scale_and_zero_blocks_stay_zero) {
  std::vector<float> w(10, 0.0f);
  w[8] = -5.0f;
  std::vector<std::uint8_t> packed(5);
  std::vector<float> absmax(3), back(10);
  encode_nf4(w.data(), 10, 4, packed.data(), absmax.data());
  EXPECT_EQ(absmax, (std::vector<float>{0, 0, 5}));
  decode_nf4({.packed = packed.data(), .map = kNf4Map, .absmax = absmax.data(), .block = 4}, 0, 10, back.data());
  EXPECT_EQ(back, w);
}

struct Nf4Case {
  std::vector<std::uint8_t> packed{0x0f, 0x7a, 0x12, 0xf0};  // codes 0 15 7 10 1 2 15 0
  std::vector<float> map{};
  std::vector<float> absmax{2.0f, 0.5f};
  Nf4Codes codes{};
  Nf4Case() {
    for (int i = 0; i < 16; ++i) map.push_back(float(i) - 8.0f);
    codes.packed = packed.data();
    codes.map = map.data();
    codes.absmax = absmax.data();
    codes.block = 4;
  }
};

TEST(Nf4, high_nibble_is_the_first_element_and_blocks_have_their_scale) {
  const Nf4Case c;
  std::array<float, 8> w{};
  decode_nf4(c.codes, 0, 8, w.data());
  EXPECT_EQ(w, (std::array<float, 8>{-16, 14, -2, 4, -3.5f, -3, 3.5f, -4}));
}

TEST(Nf4, any_window_gives_the_same_elements) {
  const Nf4Case c;
  std::array<float, 8> whole{};
  decode_nf4(c.codes, 0, 8, whole.data());
  for (int first = 0; first < 8; ++first) {
    for (int count = 1; first + count <= 8; ++count) {
      std::vector<float> part(std::size_t(count), 99.0f);
      decode_nf4(c.codes, first, count, part.data());
      for (int i = 0; i < count; ++i) EXPECT_EQ(part[std::size_t(i)], whole[std::size_t(first + i)]) << first << "+" << i;
    }
  }
}

TEST(Nf4, nested_scales) {
  Nf4Case c;
  std::vector<float> nested_map(256);
  for (int i = 0; i < 256; ++i) nested_map[std::size_t(i)] = float(i) / 256.0f;
  const std::vector<std::uint8_t> nested_codes{128, 64};
  const std::vector<float> nested_absmax{2.0f, 4.0f};
  c.codes.absmax = nullptr;
  c.codes.nested = {.codes = nested_codes.data(), .map = nested_map.data(), .absmax = nested_absmax.data(), .block = 1, .offset = 1.0f};
  std::array<float, 8> w{};
  decode_nf4(c.codes, 0, 8, w.data());
  EXPECT_EQ(w[0], -8.0f * (0.5f * 2.0f + 1.0f));
  EXPECT_EQ(w[4], -7.0f * (0.25f * 4.0f + 1.0f));
}

TEST(GgufBlocks, q8_0) {
  std::vector<std::byte> block = f16_bytes(0.5f);
  for (int i = 0; i < 32; ++i) block.push_back(std::byte(std::uint8_t(std::int8_t(i * 8 - 128))));
  std::array<float, 32> w{};
  decode_q8_0(block.data(), 32, w.data());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(w[std::size_t(i)], 0.5f * float(i * 8 - 128));
}

TEST(GgufBlocks, q4_0_low_nibbles_come_first) {
  std::vector<std::byte> block = f16_bytes(-0.25f);
  for (int i = 0; i < 16; ++i) block.push_back(std::byte(i | (15 - i) << 4));
  std::array<float, 32> w{};
  decode_q4_0(block.data(), 32, w.data());
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(w[std::size_t(i)], -0.25f * float(i - 8));
    EXPECT_EQ(w[std::size_t(i + 16)], -0.25f * float(15 - i - 8));
  }
}

// Every 6-bit scale and minimum is a different number, so a bit taken from the wrong place shows.
TEST(GgufBlocks, q4_k_scales_and_minimums_of_all_sub_blocks) {
  const std::array<int, 8> scales{1, 18, 35, 52, 63, 44, 29, 10}, minimums{62, 47, 28, 13, 5, 22, 39, 56};
  std::vector<std::byte> block = f16_bytes(0.5f);
  for (const std::byte b : f16_bytes(0.125f)) block.push_back(b);
  std::array<std::uint8_t, 12> packed{};
  for (std::size_t j = 0; j < 4; ++j) {
    packed[j] = std::uint8_t(scales[j] | (scales[j + 4] >> 4) << 6);
    packed[j + 4] = std::uint8_t(minimums[j] | (minimums[j + 4] >> 4) << 6);
    packed[j + 8] = std::uint8_t((scales[j + 4] & 15) | (minimums[j + 4] & 15) << 4);
  }
  for (const std::uint8_t b : packed) block.push_back(std::byte(b));
  for (int c = 0; c < 4; ++c) {
    for (int i = 0; i < 32; ++i) block.push_back(std::byte(((i + c) & 15) | ((i * 3 + c) & 15) << 4));
  }
  ASSERT_EQ(std::int64_t(block.size()), kQ4_KBytes);
  std::array<float, 256> w{};
  decode_q4_k(block.data(), 256, w.data());
  for (int j = 0; j < 8; ++j) {
    for (int i = 0; i < 32; ++i) {
      const int code = j % 2 == 0 ? (i + j / 2) & 15 : (i * 3 + j / 2) & 15;
      EXPECT_EQ(w[std::size_t(32 * j + i)], 0.5f * float(scales[std::size_t(j)]) * float(code) - 0.125f * float(minimums[std::size_t(j)])) << j << " " << i;
    }
  }
}

TEST(GgufBlocks, several_blocks_at_an_odd_address) {
  std::vector<std::byte> bytes(1);
  for (int b = 0; b < 3; ++b) {
    for (const std::byte x : f16_bytes(float(b + 1))) bytes.push_back(x);
    for (int i = 0; i < 32; ++i) bytes.push_back(std::byte(i));
  }
  std::array<float, 96> w{};
  decode_q8_0(bytes.data() + 1, 96, w.data());
  for (int i = 0; i < 96; ++i) EXPECT_EQ(w[std::size_t(i)], float(i / 32 + 1) * float(i % 32));
}

TEST(Int8Row, rotation_is_undone) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  constexpr int kColumns = 64;
  std::vector<float> w(kColumns);
  for (float& x : w) x = normal(random);
  for (const int group : {4, 16, 64}) {
    std::vector<float> rotated = w;
    rotate_row(rotated.data(), kColumns, group);
    std::vector<std::int8_t> q(kColumns);
    const float scale = quantize_weight_row(rotated.data(), kColumns, q.data());
    std::vector<float> back(kColumns);
    decode_int8_row(q.data(), kColumns, scale, group, back.data());
    // The rotation keeps lengths: half a step of error in each of 64 rotated values, plus the rounding of the rotation itself.
    double error = 0;
    for (std::size_t k = 0; k < w.size(); ++k) error += std::pow(double(back[k]) - w[k], 2);
    EXPECT_LE(std::sqrt(error), 0.5 * scale * std::sqrt(double(kColumns)) + 1e-5) << group;
  }
}

TEST(Int8Row, minus_128_is_read) {
  const std::array<std::int8_t, 2> q{-128, 127};
  std::array<float, 2> w{};
  decode_int8_row(q.data(), 2, 0.5f, 0, w.data());
  EXPECT_EQ(w, (std::array<float, 2>{-64.0f, 63.5f}));
}

TEST(Smoothing, both_directions) {
  const std::array<float, 2> s{2.0f, 0.25f};
  std::array<float, 2> x{6.0f, 1.0f};
  undo_smoothing(x.data(), 2, Smoothing::none, nullptr);
  EXPECT_EQ(x, (std::array<float, 2>{6.0f, 1.0f}));
  undo_smoothing(x.data(), 2, Smoothing::divide, s.data());
  EXPECT_EQ(x, (std::array<float, 2>{3.0f, 4.0f}));
  undo_smoothing(x.data(), 2, Smoothing::multiply, s.data());
  EXPECT_EQ(x, (std::array<float, 2>{6.0f, 1.0f}));
}

}  // namespace
}  // namespace octavo
