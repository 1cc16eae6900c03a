// A clock that sees every op: how much work it is, which kernel ran, when it began and ended. Null in ExecContext but for a bench.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/exec_context.h"
#include "tensor/dtype.h"

namespace octavo {

// What an op has to do at least. Formulas: op_work.h.
struct OpWork {
  std::string op{};                           // "linear", "attention"
  std::string name{};                         // of its weight in the checkpoint, or empty
  std::int64_t m = 0, n = 0, k = 0;           // of a product; attention: queries, keys, head size; a row op: rows, 0, columns
  DType math = DType::f32, out = DType::f32;  // operands of the multiplications, and the result
  double macs = 0;                            // multiply-adds that tensor cores could do
  double bytes = 0;                           // every operand and result once
};

class OpTimer {
 public:
  virtual ~OpTimer() = default;
  virtual void begin(const ExecContext& ctx, OpWork work) = 0;
  virtual void end(const ExecContext& ctx) = 0;
  virtual void ran(std::string_view kernel) = 0;  // between begin and end
};

// From here to the end of the scope is one op. `describe` gives the OpWork and is not called without a timer.
class OpSpan {
 public:
  template <class Describe>
  OpSpan(const ExecContext& ctx, const Describe& describe) : ctx_(ctx) {
    if (ctx_.timer != nullptr) ctx_.timer->begin(ctx_, describe());
  }
  ~OpSpan() {
    if (ctx_.timer != nullptr) ctx_.timer->end(ctx_);
  }
  OpSpan(const OpSpan&) = delete;
  OpSpan& operator=(const OpSpan&) = delete;

 private:
  const ExecContext& ctx_;
};

inline void note_kernel(const ExecContext& ctx, std::string_view kernel) {
  if (ctx.timer != nullptr) ctx.timer->ran(kernel);
}

}  // namespace octavo
