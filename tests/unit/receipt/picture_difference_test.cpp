#include "receipt/picture_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "octavo/error.h"

namespace octavo {
namespace {

// Smooth waves with edges: something that has structure to lose.
Image picture(int width, int height) {
  Image image{.width = width, .height = height, .rgb = std::vector<std::uint8_t>(std::size_t(width * height * 3))};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const double wave = 128 + 70 * std::sin(x * 0.3 + c) * std::cos(y * 0.2 - c) + ((x / 9 + y / 7) % 2 == 0 ? 30 : -30);
        image.rgb[std::size_t((y * width + x) * 3 + c)] = std::uint8_t(wave);
      }
    }
  }
  return image;
}

Image with_noise(Image image, double sigma, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<double> normal(0, sigma);
  for (std::uint8_t& byte : image.rgb) byte = std::uint8_t(std::clamp(std::lround(byte + normal(bits)), 0L, 255L));
  return image;
}

Image flat(int side, std::uint8_t value) { return {.width = side, .height = side, .rgb = std::vector<std::uint8_t>(std::size_t(side * side * 3), value)}; }

// The definition, place by place with one window of two axes.
double ssim_by_definition(const Image& a, const Image& b) {
  const auto luma = [](const Image& image, int x, int y) {
    const std::uint8_t* p = image.rgb.data() + (y * image.width + x) * 3;
    return 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
  };
  double sum = 0;
  int places = 0;
  for (int top = 0; top + 11 <= a.height; ++top) {
    for (int left = 0; left + 11 <= a.width; ++left) {
      double weights = 0, ma = 0, mb = 0, va = 0, vb = 0, cov = 0;
      for (const bool is_second_pass : {false, true}) {
        for (int y = 0; y < 11; ++y) {
          for (int x = 0; x < 11; ++x) {
            const double w = std::exp(-((x - 5) * (x - 5) + (y - 5) * (y - 5)) / 4.5);
            const double p = luma(a, left + x, top + y), q = luma(b, left + x, top + y);
            if (!is_second_pass) {
              weights += w;
              ma += w * p;
              mb += w * q;
            } else {
              va += w * (p - ma) * (p - ma) / weights;
              vb += w * (q - mb) * (q - mb) / weights;
              cov += w * (p - ma) * (q - mb) / weights;
            }
          }
        }
        if (!is_second_pass) {
          ma /= weights;
          mb /= weights;
        }
      }
      const double c1 = 6.5025, c2 = 58.5225;
      sum += (2 * ma * mb + c1) * (2 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
      ++places;
    }
  }
  return sum / places;
}

TEST(Ssim, a_picture_is_like_itself) {
  EXPECT_DOUBLE_EQ(ssim(picture(40, 31), picture(40, 31)), 1);
  EXPECT_DOUBLE_EQ(ssim(flat(16, 0), flat(16, 0)), 1);
}

TEST(Ssim, symmetric) {
  const Image a = picture(33, 40), b = with_noise(a, 20, 1);
  EXPECT_DOUBLE_EQ(ssim(a, b), ssim(b, a));
}

TEST(Ssim, falls_with_noise) {
  const Image a = picture(48, 48);
  double previous = 1;
  for (const double sigma : {2.0, 5.0, 10.0, 20.0, 40.0, 80.0}) {
    const double now = ssim(a, with_noise(a, sigma, 7));
    EXPECT_LT(now, previous) << sigma;
    previous = now;
  }
  EXPECT_LT(previous, 0.6);
}

TEST(Ssim, the_separable_window_is_the_window_of_the_definition) {
  const Image a = picture(27, 19), b = with_noise(a, 12, 3);
  // Two ways of summing numbers up to 255² in float64: 121 terms of 65025 round to 121 · 65025 · 2^-53 = 1e-9, against c2 = 58.
  EXPECT_NEAR(ssim(a, b), ssim_by_definition(a, b), 1e-9);
}

// Without structure only the means speak: (2ab + c1) / (a² + b² + c1).
TEST(Ssim, flat_pictures_have_a_closed_form) {
  EXPECT_NEAR(ssim(flat(20, 100), flat(20, 150)), (2 * 100 * 150 + 6.5025) / (100 * 100 + 150 * 150 + 6.5025), 1e-9);
}

TEST(Ssim, one_window_is_enough_and_less_is_refused) {
  EXPECT_DOUBLE_EQ(ssim(picture(11, 11), picture(11, 11)), 1);
  EXPECT_THROW(ssim(picture(10, 30), picture(10, 30)), InvalidArgument);
  EXPECT_THROW(ssim(picture(16, 32), picture(32, 16)), InvalidArgument);
}

TEST(Psnr, one_byte_off) {
  const Image a = picture(16, 16);
  Image b = a;
  b.rgb[100] = std::uint8_t(b.rgb[100] ^ 16);  // 16 up or down
  const PictureDifference difference = compare_pictures(a, b);
  EXPECT_NEAR(difference.psnr_db, 10 * std::log10(255.0 * 255.0 * 768 / 256), 1e-9);
  EXPECT_EQ(difference.largest, 16);
  EXPECT_NEAR(difference.mean, 16.0 / 768, 1e-12);
  EXPECT_NEAR(difference.share_over_8, 1.0 / 256, 1e-12);
}

TEST(Psnr, no_difference_is_said_as_such) {
  const PictureDifference difference = compare_pictures(picture(16, 16), picture(16, 16));
  EXPECT_EQ(difference.psnr_db, kIdenticalPsnr);
  EXPECT_EQ(difference.largest, 0);
}

// Gaussian noise of sigma s on bytes that are not cut has a mean square of s² + 1/12 (the rounding): within 5 % at 6912 bytes, whose own spread is
// sqrt(2 / 6912) = 1.7 %.
TEST(Psnr, of_noise) {
  const Image a = flat(48, 128);
  const double mean_square = 255.0 * 255.0 / std::pow(10, compare_pictures(a, with_noise(a, 9, 5)).psnr_db / 10);
  EXPECT_NEAR(mean_square, 81 + 1.0 / 12, 0.05 * 81);
}

TEST(AmplifiedDifference, grey_sign_and_saturation) {
  const Image a = flat(11, 100);
  Image b = a;
  b.rgb[0] = 103;
  b.rgb[1] = 98;
  b.rgb[2] = 255;
  b.rgb[3] = 0;
  const Image difference = amplified_difference(a, b, 8);
  EXPECT_EQ(difference.rgb[0], 128 + 24);
  EXPECT_EQ(difference.rgb[1], 128 - 16);
  EXPECT_EQ(difference.rgb[2], 255);
  EXPECT_EQ(difference.rgb[3], 0);
  EXPECT_EQ(difference.rgb[4], 128);
}

}  // namespace
}  // namespace octavo
