#include "cpu/row_math.h"

#include "cpu/target.h"

namespace octavo::cpu {
namespace {

constexpr int kLanes = 16;

float halve(float* lane) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

}  // namespace

OCTAVO_CPU_CLONES
float sum(const float* x, std::int64_t count) {
  float lane[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (int i = 0; i < kLanes; ++i) lane[i] += x[k + i];
  }
  for (int i = 0; k + i < count; ++i) lane[i] += x[k + i];
  return halve(lane);
}

OCTAVO_CPU_CLONES
float sum_squares(const float* x, std::int64_t count, float center) {
  float lane[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (int i = 0; i < kLanes; ++i) lane[i] += (x[k + i] - center) * (x[k + i] - center);
  }
  for (int i = 0; k + i < count; ++i) lane[i] += (x[k + i] - center) * (x[k + i] - center);
  return halve(lane);
}

}  // namespace octavo::cpu
