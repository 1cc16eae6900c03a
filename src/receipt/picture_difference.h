// How far two pictures of the same size are apart, in the words people use, and where.
#pragma once

#include "octavo/image.h"

namespace octavo {

struct PictureDifference {
  double psnr_db = 0;       // 10 log10(255² / mean squared difference) over all bytes; kIdenticalPsnr if there is none
  double ssim = 0;          // below
  int largest = 0;          // of any byte
  double mean = 0;          // of all bytes, |a - b|
  double share_over_8 = 0;  // of pixels, one of whose bytes differs by more than 8
};

inline constexpr double kIdenticalPsnr = 999;

// Structural similarity (Wang et al. 2004) of the luma 0.299 R + 0.587 G + 0.114 B: the mean over all places of an 11 x 11 Gaussian window of
// sigma 1.5 that lie inside the picture of
//   (2 μa μb + c1)(2 σab + c2) / ((μa² + μb² + c1)(σa² + σb² + c2)),   c1 = (0.01 · 255)², c2 = (0.03 · 255)²
// 1: equal. Throws InvalidArgument if the sizes differ or a side is under 11 pixels.
double ssim(const Image& a, const Image& b);

// Throws as ssim does.
PictureDifference compare_pictures(const Image& a, const Image& b);

// 128 + factor · (b - a) of every byte, cut to 0 ... 255: grey where nothing changed.
Image amplified_difference(const Image& a, const Image& b, int factor);

}  // namespace octavo
