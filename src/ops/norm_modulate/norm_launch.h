// What norm_modulate_cuda.cpp hands to the kernels.
#pragma once

#include <cstdint>

#include "cuda/row/walk.h"

namespace octavo {

// A vector of K parameters in global memory; null: every entry is the neutral one.
struct VectorIn {
  const void* data = nullptr;
  cuda::RowType type = cuda::RowType::f32;
};

// Four parameters are loaded as 8-byte words.
inline bool is_aligned(const VectorIn& vector) { return reinterpret_cast<std::uintptr_t>(vector.data) % 8 == 0; }

struct NormLaunch {
  cuda::RowsIn x{};
  cuda::RowsOut out{};
  VectorIn weight{};     // null: 1
  VectorIn mod_scale{};  // null: 0
  float eps = 0;
  bool center = false;  // layer_norm: subtract the mean first
  std::int64_t rows = 0;
  int columns = 0;
  float inverse_columns = 0;
  int depth = 0;  // rows fetched ahead; launch_walk() fills it in
};

struct GatedResidualLaunch {
  cuda::RowsIn residual{};  // updated in place
  cuda::RowsIn y{};
  VectorIn mod_gate{};  // before tanh
  VectorIn post_weight{};
  float post_eps = 0;
  bool has_out = false;
  cuda::RowsOut out{};
  VectorIn next_weight{};
  VectorIn next_mod_scale{};
  float next_eps = 0;
  std::int64_t rows = 0;
  int columns = 0;
  float inverse_columns = 0;
  int depth = 0;  // as above
};

struct AddRowsLaunch {
  cuda::RowsIn x{};  // updated in place
  cuda::RowsIn y{};
  std::int64_t rows = 0;
  int columns = 0;
};

// Each enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
void launch_norm(const NormLaunch& launch, int device_index, void* stream);
void launch_gated_residual_norm(const GatedResidualLaunch& launch, int device_index, void* stream);
void launch_add_rows(const AddRowsLaunch& launch, void* stream);

}  // namespace octavo
