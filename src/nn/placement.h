// From where a checkpoint keeps numbers to where ops read them, and back.
#pragma once

#include <string_view>
#include <vector>

#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo::nn {

// `host` as ops on ctx.device read it: itself on the CPU, else a dense copy that `owned` keeps, enqueued on ctx.stream (host may change after the call).
// With `dtype`, f32, bf16 or f16, the copy holds its numbers rounded to that type; on the CPU nothing changes.
TensorView place(ExecContext& ctx, const TensorView& host, std::vector<Tensor>& owned, std::string_view what);
// place_as throws as store_weight does.
TensorView place_as(ExecContext& ctx, const TensorView& host, DType dtype, std::vector<Tensor>& owned, std::string_view what);

// store_from_float for a weight. Throws DataError, named by `who` ("vae 'conv_in.weight'"), if a finite number does not fit f16.
void store_weight(const float* from, std::int64_t count, DType dtype, void* to, std::string_view who);

// A dense tensor of the same numbers on ctx.device (a copy also on the CPU), or on the CPU. to_cpu waits for ctx.stream.
Tensor to_device(ExecContext& ctx, const TensorView& from, std::string_view what);
Tensor to_cpu(ExecContext& ctx, const TensorView& from, std::string_view what);

}  // namespace octavo::nn
