// Rows of any length, alignment and rotation group: one CTA a row, a value at a time, recomputed for each pass.
// Slow beside the register kernels, and the only path for odd K, misaligned views, K above 18432 and groups above 256.
#pragma once

#include "cuda/row/quantize.cuh"

namespace octavo::cuda {

inline constexpr int kGeneralThreads = 512;
inline constexpr int kGeneralChunk = 1024;  // values rotated at a time; a larger group is its own chunk

// Floats of dynamic shared memory for rotating by `group` (0: none).
OCTAVO_HOST_DEVICE int general_words(int group) { return group == 0 ? 0 : group > kGeneralChunk ? group : kGeneralChunk; }

// Calls use(k, value) for every rotated value of the row; each thread sees the same k in every call.
template <class Value, class Use>
__device__ void for_each_value(const Value& value, int columns, int group, float* words, const Use& use) {
  if (group == 0) {
    for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) use(k, value(k));
    return;
  }
  const int chunk = general_words(group);  // a multiple of the group: both are powers of 4
  for (int start = 0; start < columns; start += chunk) {
    const int count = columns - start < chunk ? columns - start : chunk;
    for (int i = int(threadIdx.x); i < count; i += int(blockDim.x)) words[i] = value(start + i);
    for (int stride = 1; stride < group; stride *= 4) {
      __syncthreads();
      for (int i = int(threadIdx.x); i < count / 4; i += int(blockDim.x)) {
        float* v = words + i / stride * stride * 4 + i % stride;
        rotate4(v[0], v[stride], v[2 * stride], v[3 * stride]);
        for (int j = 0; j < 4; ++j) v[j * stride] *= 0.5f;
      }
    }
    __syncthreads();
    for (int i = int(threadIdx.x); i < count; i += int(blockDim.x)) use(start + i, words[i]);
    __syncthreads();
  }
}

// value(k) gives the finished float32 value of column k, the same each time it is asked.
template <class Value>
__device__ void store_row_general(const Value& value, const RowsOut& out, std::int64_t row, int columns, RowReducer& reducer, float* words) {
  if (out.scale == nullptr) {
    for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) store_one(out.data, out.type, row * out.stride + k, value(k));
    return;
  }
  AbsMax absmax;
  for_each_value(value, columns, out.rotation_group, words, [&](int, float v) { absmax.add(v); });
  const float largest = __uint_as_float(reducer.max(absmax.bits()));
  const float inverse = inverse_scale(largest);
  if (threadIdx.x == 0) out.scale[row] = scale_of(largest, inverse);
  std::int8_t* codes = static_cast<std::int8_t*>(out.data) + row * out.stride;
  for_each_value(value, columns, out.rotation_group, words,
                 [&](int k, float v) { codes[k] = std::int8_t(inverse == 0.0f ? 0u : code_bits<Rounding::twice>(v, inverse) & 0xffu); });
}

}  // namespace octavo::cuda
