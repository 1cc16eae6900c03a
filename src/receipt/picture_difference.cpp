#include "receipt/picture_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "octavo/error.h"

namespace octavo {
namespace {

constexpr int kWindow = 11;
constexpr double kSigma = 1.5;
constexpr double kC1 = (0.01 * 255) * (0.01 * 255), kC2 = (0.03 * 255) * (0.03 * 255);
constexpr int kVisible = 8;

void check_sizes(const Image& a, const Image& b) {
  if (a.width == b.width && a.height == b.height && a.rgb.size() == b.rgb.size()) return;
  throw InvalidArgument(
      fmt::format("comparison: pictures are {}x{} and {}x{}; only pictures of one size can be compared", a.width, a.height, b.width, b.height));
}

std::array<double, kWindow> gaussian() {
  std::array<double, kWindow> weights{};
  double sum = 0;
  for (int i = 0; i < kWindow; ++i) {
    const double distance = i - kWindow / 2;
    sum += weights[std::size_t(i)] = std::exp(-distance * distance / (2 * kSigma * kSigma));
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

struct Plane {
  int width = 0, height = 0;
  std::vector<double> values{};
};

Plane luma(const Image& image) {
  Plane plane{image.width, image.height, std::vector<double>(image.rgb.size() / 3)};
  for (std::size_t i = 0; i < plane.values.size(); ++i) {
    plane.values[i] = 0.299 * image.rgb[3 * i] + 0.587 * image.rgb[3 * i + 1] + 0.114 * image.rgb[3 * i + 2];
  }
  return plane;
}

Plane product(const Plane& a, const Plane& b) {
  Plane result = a;
  for (std::size_t i = 0; i < result.values.size(); ++i) result.values[i] *= b.values[i];
  return result;
}

// The Gaussian mean around every place where the whole window lies inside: rows, then columns.
Plane blurred(const Plane& plane) {
  static const std::array<double, kWindow> weights = gaussian();
  Plane rows{plane.width - kWindow + 1, plane.height, {}};
  for (int y = 0; y < rows.height; ++y) {
    for (int x = 0; x < rows.width; ++x) {
      double sum = 0;
      for (int i = 0; i < kWindow; ++i) sum += weights[std::size_t(i)] * plane.values[std::size_t(y) * std::size_t(plane.width) + std::size_t(x + i)];
      rows.values.push_back(sum);
    }
  }
  Plane result{rows.width, rows.height - kWindow + 1, {}};
  for (int y = 0; y < result.height; ++y) {
    for (int x = 0; x < result.width; ++x) {
      double sum = 0;
      for (int i = 0; i < kWindow; ++i) sum += weights[std::size_t(i)] * rows.values[std::size_t(y + i) * std::size_t(rows.width) + std::size_t(x)];
      result.values.push_back(sum);
    }
  }
  return result;
}

}  // namespace

double ssim(const Image& first, const Image& second) {
  check_sizes(first, second);
  if (first.width < kWindow || first.height < kWindow) {
    throw InvalidArgument(fmt::format("comparison: SSIM needs {} pixels a side, the pictures are {}x{}", kWindow, first.width, first.height));
  }
  const Plane a = luma(first), b = luma(second);
  const Plane mean_a = blurred(a), mean_b = blurred(b), square_a = blurred(product(a, a)), square_b = blurred(product(b, b)), cross = blurred(product(a, b));
  double sum = 0;
  for (std::size_t i = 0; i < mean_a.values.size(); ++i) {
    const double ma = mean_a.values[i], mb = mean_b.values[i];
    const double variance_a = square_a.values[i] - ma * ma, variance_b = square_b.values[i] - mb * mb, covariance = cross.values[i] - ma * mb;
    sum += (2 * ma * mb + kC1) * (2 * covariance + kC2) / ((ma * ma + mb * mb + kC1) * (variance_a + variance_b + kC2));
  }
  return sum / double(mean_a.values.size());
}

PictureDifference compare_pictures(const Image& a, const Image& b) {
  PictureDifference difference{.ssim = ssim(a, b)};
  double squares = 0, sum = 0;
  std::size_t visible = 0;
  for (std::size_t pixel = 0; pixel < a.rgb.size(); pixel += 3) {
    int largest = 0;
    for (std::size_t i = pixel; i < pixel + 3; ++i) {
      const int distance = std::abs(int(a.rgb[i]) - int(b.rgb[i]));
      squares += double(distance) * distance;
      sum += distance;
      largest = std::max(largest, distance);
    }
    difference.largest = std::max(difference.largest, largest);
    visible += largest > kVisible ? 1 : 0;
  }
  const double count = double(a.rgb.size());
  difference.psnr_db = squares > 0 ? 10 * std::log10(255.0 * 255.0 * count / squares) : kIdenticalPsnr;
  difference.mean = sum / count;
  difference.share_over_8 = 3 * double(visible) / count;
  return difference;
}

Image amplified_difference(const Image& a, const Image& b, int factor) {
  check_sizes(a, b);
  Image difference{.width = a.width, .height = a.height, .rgb = a.rgb};
  for (std::size_t i = 0; i < difference.rgb.size(); ++i) {
    difference.rgb[i] = std::uint8_t(std::clamp(128 + factor * (int(b.rgb[i]) - int(a.rgb[i])), 0, 255));
  }
  return difference;
}

}  // namespace octavo
