#include "nn/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "nn/placement.h"
#include "octavo/error.h"
#include "ops/gated_act/gated_act.h"

namespace octavo::nn {

namespace {

constexpr std::int64_t kRankStep = 8;      // 16 bytes of bf16: what the tensor cores are fed with
constexpr std::int64_t kAlignment = 256;   // as every tensor of its own has
constexpr std::int64_t kRowsPerTask = 64;  // of A or B, converted by one thread

std::int64_t placed_rank(const LoraTerm& term) { return round_up(term.down.rows(), kRankStep); }

// Calls visit(projection, number of the term, first byte of A, first byte of B) and returns the bytes of all: for each projection the A of its terms one below
// the other without a gap, as if they were one matrix, then the B.
template <class Visit>
std::int64_t lay_out(const LoraTerms& loras, DType floats, const Visit& visit) {
  std::int64_t at = 0;
  for (const auto& [projection, terms] : loras) {
    std::int64_t down = round_up(at, kAlignment), up = down;
    for (const LoraTerm& term : terms) up += placed_rank(term) * term.down.columns() * std::int64_t(bytes_of(floats));
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const LoraTerm& term = terms[i];
      up = round_up(up, kAlignment);
      visit(projection, i, down, up);
      down += placed_rank(term) * term.down.columns() * std::int64_t(bytes_of(floats));
      up += placed_rank(term) * term.up.rows() * std::int64_t(bytes_of(floats));
    }
    at = up;
  }
  return at;
}

// Into rows that are at least as long, behind which zeros stay.
void copy_rounded(ExecContext& ctx, const TensorView& from, const TensorView& to, const std::string& module) {
  const std::string who = fmt::format("lora '{}'", module);
  ctx.pool->for_each(ceil_div(from.rows(), kRowsPerTask), [&](std::int64_t task) {
    std::vector<float> row(static_cast<std::size_t>(from.columns()));
    for (std::int64_t n = task * kRowsPerTask; n < std::min(from.rows(), (task + 1) * kRowsPerTask); ++n) {
      load_as_float(from.row_bytes(n), from.dtype, from.columns(), row.data());
      store_weight(row.data(), from.columns(), to.dtype, to.row_bytes(n), who);
    }
  });
}

DType common_dtype(std::span<const LoraTerm> terms) {
  const DType dtype = terms.front().down.dtype;
  return std::all_of(terms.begin(), terms.end(), [&](const LoraTerm& term) { return term.down.dtype == dtype; }) ? dtype : DType::f32;
}

std::int64_t rank_of(std::span<const LoraTerm> terms) {
  std::int64_t rank = 0;
  for (const LoraTerm& term : terms) rank += term.down.rows();
  return rank;
}

// The A of all terms one below the other, in the file's type if they agree: the rows of x are then packed once for all of them, which for thin matrices
// is most of the work.
TensorView stacked_down(ExecContext& ctx, std::span<const LoraTerm> terms) {
  const TensorView& first = terms.front().down;
  if (terms.size() == 1) return first;
  const DType dtype = common_dtype(terms);
  if (!first.device.is_cpu()) return {first.data, dtype, {rank_of(terms), first.columns()}, first.device};  // they lie so
  const TensorView all = scratch_tensor(ctx, dtype, {rank_of(terms), first.columns()}, "A of LoRAs");
  std::int64_t next = 0;
  for (const LoraTerm& term : terms) {
    for (std::int64_t r = 0; r < term.down.rows(); ++r) {
      if (dtype == term.down.dtype) {
        std::memcpy(all.row_bytes(next++), term.down.row_bytes(r), std::size_t(all.columns()) * bytes_of(dtype));
      } else {
        load_as_float(term.down.row_bytes(r), term.down.dtype, all.columns(), all.row<float>(next++));
      }
    }
  }
  return all;
}

// Of the rows between A and B. On a GPU rows and matrices of one 16-bit type are multiplied as such, both times.
DType inner_dtype(Device device, DType x, DType down) { return !device.is_cpu() && x == down ? x : DType::f32; }

void check_lora(const TensorView& x, std::span<const LoraTerm> terms, const TensorView& y) {
  const auto* next = static_cast<const std::byte*>(terms.front().down.data);
  for (const LoraTerm& term : terms) {
    const bool is_fitting =
        term.down.columns() == x.columns() && term.up.columns() == term.down.rows() && term.first_row >= 0 && term.first_row + term.up.rows() <= y.columns();
    if (!is_fitting) {
      throw InvalidArgument(fmt::format("lora '{}': A {} and B {} do not fit between rows of {} and columns [{}, {}) of {}", term.module,
                                        term.down.shape.text(), term.up.shape.text(), x.columns(), term.first_row, term.first_row + term.up.rows(),
                                        y.columns()));
    }
    const bool is_placed = term.down.device == y.device && term.up.device == y.device && (y.device.is_cpu() || term.down.data == next);
    if (!is_placed) throw InvalidArgument(fmt::format("lora '{}': its numbers do not lie on {} as place_loras() puts them", term.module, y.device.name()));
    next += term.down.bytes();
  }
}

}  // namespace

std::int64_t placed_lora_bytes(const LoraTerms& loras, DType floats) {
  return lay_out(loras, floats, [](const std::string&, std::size_t, std::int64_t, std::int64_t) {});
}

PlacedLoras place_loras(ExecContext& ctx, const LoraTerms& loras, DType floats) {
  constexpr std::string_view what = "LoRAs";
  const Shape shape{placed_lora_bytes(loras, floats)};
  PlacedLoras placed{.terms = loras, .memory = Tensor(DType::u8, shape, ctx.device, what)};
  const Tensor host = Tensor::zeros(DType::u8, shape, what);
  lay_out(loras, floats, [&](const std::string& projection, std::size_t number, std::int64_t down_at, std::int64_t up_at) {
    LoraTerm& term = placed.terms.find(projection)->second[number];
    const std::int64_t rank = placed_rank(term);
    const auto put = [&](TensorView& view, std::int64_t at, const Shape& padded) {
      copy_rounded(ctx, view, TensorView(host.as<std::byte>() + at, floats, padded), term.module);
      view = TensorView(placed.memory.as<std::byte>() + at, floats, padded, ctx.device);
    };
    put(term.down, down_at, {rank, term.down.columns()});
    put(term.up, up_at, {term.up.rows(), rank});
  });
  copy_bytes(placed.memory.as<void>(), ctx.device, host.as<void>(), Device{}, host.bytes(), ctx.stream);
  return placed;
}

void add_lora(ExecContext& ctx, const TensorView& x, std::span<const LoraTerm> terms, const TensorView& y) {
  if (terms.empty()) return;
  check_lora(x, terms, y);
  const ArenaScope scope(*ctx.scratch);
  const TensorView down = stacked_down(ctx, terms);
  const TensorView inner = scratch_tensor(ctx, inner_dtype(y.device, x.dtype, down.dtype), {x.rows(), down.rows()}, "inner rows of LoRAs");
  linear(ctx, x, {.name = terms.front().module, .weight = down, .rounds_x = true}, {}, inner);
  std::int64_t first = 0;
  for (const LoraTerm& term : terms) {
    const TensorView columns = y.column_range(term.first_row, term.up.rows());
    linear(ctx, inner.column_range(first, term.down.rows()), {.name = term.module, .weight = term.up, .rounds_x = true},
           {.factor = term.scale, .residual = columns}, columns);
    first += term.down.rows();
  }
}

void take_lora_scratch(ScratchCount& scratch, Device device, std::span<const LoraTerm> terms, std::int64_t rows, DType x, DType floats) {
  if (terms.empty()) return;
  const std::int64_t mark = scratch.mark();
  if (device.is_cpu() && terms.size() > 1) scratch.take(common_dtype(terms), {rank_of(terms), terms.front().down.columns()});
  std::int64_t rank = 0;
  for (const LoraTerm& term : terms) rank += device.is_cpu() ? term.down.rows() : placed_rank(term);
  scratch.take(inner_dtype(device, x, floats), {rows, rank});
  if (!device.is_cpu() && floats == DType::f16 && x != DType::f16 && x != DType::s8) {  // x in float16; later the inner rows, which are shorter
    scratch.take(DType::f16, {rows, terms.front().down.columns()});
    scratch.take(DType::f32, {rows});
  }
  scratch.rewind(mark);
}

void LoraLinear::forward(ExecContext& ctx, const RowOutput& x, const Epilogue& epilogue, const TensorView& y) const {
  if (terms_.empty()) return base_.forward(ctx, x, epilogue, y);
  const auto* floats = std::get_if<TensorView>(&x);
  if (floats == nullptr) throw InternalError("lora: the rows are already quantised; a LoRA acts on floats");
  if (epilogue.mod_gate || epilogue.residual) throw InternalError("lora: an epilogue with a gate or a residual would be applied before the LoRA");
  base_.forward(ctx, x, {}, y);
  add_lora(ctx, *floats, terms_, y);
  if (epilogue.activation == Activation::silu) silu(ctx, y);
}

}  // namespace octavo::nn
