// LoRA files of any rank with random numbers, for models of any size.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "golden/random_model.h"
#include "golden/temporary_model.h"
#include "weights/lora.h"

namespace octavo::golden {

// How a training tool spells the halves of a pair.
struct LoraSpelling {
  std::string down = ".lora_A.weight", up = ".lora_B.weight";
};
inline const LoraSpelling kPeft{};
inline const LoraSpelling kKohya{".lora_down.weight", ".lora_up.weight"};

class LoraBuilder {
 public:
  TensorView add(const std::string& name, Tensor tensor) {
    tensors_.push_back(std::move(tensor));
    named_.push_back({name, tensors_.back()});
    return tensors_.back();
  }
  // A of variance 1 / K and B of variance 1 / r, so that B (A x) has the size of x.
  void add_pair(const std::string& module, std::int64_t out, std::int64_t in, std::int64_t rank, std::uint32_t seed, DType dtype = DType::f32,
                const LoraSpelling& spelling = kPeft) {
    add(module + spelling.down, scaled(random_rows({rank, in}, seed), 1 / std::sqrt(float(in)), dtype));
    add(module + spelling.up, scaled(random_rows({out, rank}, seed + 1), 1 / std::sqrt(float(rank)), dtype));
  }
  void add_number(const std::string& name, float value, DType dtype = DType::f32, Shape shape = {}) {
    Tensor number(dtype, shape);
    store_from_float(&value, 1, dtype, number.as<void>());
    add(name, std::move(number));
  }
  TensorView tensor(const std::string& name) const {
    return std::find_if(named_.begin(), named_.end(), [&](const NamedTensor& tensor) { return tensor.name == name; })->view;
  }
  // Returns the path, for one-liners.
  std::filesystem::path write(const std::filesystem::path& path) const {
    write_safetensors(path, named_);
    return path;
  }

 private:
  static Tensor scaled(Tensor rows, float factor, DType dtype) {
    for (std::int64_t i = 0; i < rows.shape().elements(); ++i) rows.as<float>()[i] *= factor;
    Tensor stored(dtype, rows.shape());
    store_from_float(rows.as<float>(), rows.shape().elements(), dtype, stored.as<void>());
    return stored;
  }
  std::deque<Tensor> tensors_{};
  std::vector<NamedTensor> named_{};
};

// Rows of W + Σ scale · B A from row `first_row` on, computed in float64, rounded once per element. w f32 [N, K].
inline void merge(const LoraTerm& term, const TensorView& w) {
  const Tensor down = to_float_tensor(term.down), up = to_float_tensor(term.up);
  const std::int64_t rank = down.shape()[0], columns = down.shape()[1];
  for (std::int64_t n = 0; n < up.shape()[0]; ++n) {
    for (std::int64_t k = 0; k < columns; ++k) {
      double sum = 0;
      for (std::int64_t r = 0; r < rank; ++r) sum += double(up.as<float>()[n * rank + r]) * down.as<float>()[r * columns + k];
      float& element = w.row<float>(term.first_row + n)[k];
      element = float(double(element) + double(term.scale) * sum);
    }
  }
}

}  // namespace octavo::golden
