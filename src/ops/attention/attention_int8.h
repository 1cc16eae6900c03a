// Attention whose scores come from int8 codes: QKᵀ in int8 with int32 sums, PV in float16.  docs/numerics.md section 12
#pragma once

#include "ops/attention/attention.h"

namespace octavo {

// attention() of attention.h on codes instead of q and k. With H = heads, h' the key/value head of h, D = columns of q / H:
//   mean[h',c] = Σ_j k[j,h',c] / Lk             float32: runs of 64 keys, each in key order, then the runs in theirs; a softmax does not see it
//   q̂, s_q[i,h] = codes of q[i,h,:]             numerics.md section 3, a row of D numbers per head
//   k̂, s_k[j,h'] = codes of k[j,h',:] - mean[h',:]
//   s[i,j] = ((float(Σ q̂ k̂) · s_q[i,h]) · s_k[j,h']) · softmax_scale
//   p[i,j] = exp(s[i,j] - max_j s[i,j])
//   y[i,h,:] = Σ_j f16(p[i,j]) · f16(v[j,h',:] · unit[h']) / Σ_j p[i,j] / unit[h']
// unit is the power of two that brings the largest |v| of a key/value head into [256, 512): no float16 sum over 64 keys can overflow.
// Tensors as in attention(). A row of y does not depend on the other queries nor on the number of threads; every row depends on all keys.
// Throws Unsupported for causal order, and on a GPU for what has no body: sm_75, head_dim other than 64, 128, 256, rows that are not 16-byte aligned.
void attention_int8(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y);

}  // namespace octavo
