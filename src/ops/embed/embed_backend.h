// The bodies behind embed.h. They trust their arguments: embed.cpp has checked them.
#pragma once

#include "ops/embed/embed.h"

namespace octavo {

inline constexpr bool kEmbedHasCuda = true;

void embed_rows_cpu(const TensorView& table, std::span<const std::int32_t> ids, const TensorView& y);
void embed_rows_cuda(ExecContext& ctx, const TensorView& table, std::span<const std::int32_t> ids, const TensorView& y);

}  // namespace octavo
