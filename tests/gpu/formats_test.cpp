// What stands beside or before an int8 product, on the GPU against the CPU: smoothing, dequantised products, LoRAs.
#include <fmt/format.h>

#include "device/counters.h"
#include "golden/golden.h"
#include "golden/lora_files.h"
#include "gpu/bounds_test.h"
#include "gpu/gpu_test.h"
#include "models/ideogram4/dit.h"
#include "models/ideogram4/params.h"
#include "nn/lora.h"
#include "nn/placement.h"
#include "octavo/error.h"
#include "ops/quantize/dequantize_rows.h"
#include "ops/quantize/quantize_rows.h"
#include "pipeline/model_memory.h"
#include "pipeline/pipeline.h"
#include "pipeline/pixels.h"

namespace octavo {
namespace {

using namespace octavo::testing;  // NOLINT
namespace fs = std::filesystem;
using golden::Reference;
using nn::Linear;
using nn::LinearUse;

const Precision kW8A8 = precision::on_gpu(precision::w8a8), kDequant = precision::on_gpu(precision::w8a8_dequant);
constexpr double kUnit = 0x1p-24;

class FormatsCuda : public GpuTest {
 protected:
  ExecContext with_pool() {
    ExecContext ctx = gpu_context();
    ctx.pool = &pool_;
    return ctx;
  }
  golden::CpuContext& cpu() { return cpu_; }
  const fs::path& folder() const { return temporary_.path(); }

  // An int8 projection of two parts "a" [48, K] and "b" [48, K]; smoothed by vectors of their own, by one, or not at all.
  enum class Smooth : std::uint8_t { none, same, different };
  const WeightStore& int8_store(std::int64_t k, Smooth smooth) {
    golden::LoraBuilder builder;  // any list of tensors
    Tensor shared = smoothing_vector(k);
    for (const std::string module : {"a", "b"}) {
      Tensor codes(DType::s8, {kPart, k}), scale(DType::f32, {kPart});
      for (std::int64_t i = 0; i < kPart * k; ++i) codes.as<std::int8_t>()[i] = std::int8_t(int(random()() % 255) - 127);
      for (std::int64_t n = 0; n < kPart; ++n) scale.as<float>()[n] = 0.0001f * float(n + 1);
      Tensor vector = smooth == Smooth::different ? smoothing_vector(k) : to_float_tensor(shared);
      builder.add(module + ".wq", std::move(codes));
      builder.add(module + ".ws", std::move(scale));
      if (smooth != Smooth::none) builder.add(module + ".smooth", std::move(vector));
    }
    const fs::path path = folder() / fmt::format("int8-{}", stores_.size());
    fs::create_directories(path);
    builder.write(path / "model.safetensors");
    return stores_.emplace_back(path, "test");
  }
  Tensor smoothing_vector(std::int64_t k) {
    std::normal_distribution<float> gauss;
    Tensor vector(DType::f32, {k});
    for (std::int64_t i = 0; i < k; ++i) vector.as<float>()[i] = std::exp2(gauss(random()));
    return vector;
  }
  // y f32 of a projection on either device.
  Tensor run(ExecContext& ctx, const Linear& linear, const TensorView& x, DType dtype = DType::f32) {
    std::vector<Tensor> moved;
    const TensorView rows = nn::place(ctx, x, moved, "x");
    const Tensor y(dtype, {x.rows(), linear.out_features()}, ctx.device);
    linear.forward(ctx, rows, {}, y);
    return nn::to_cpu(ctx, y, "y");
  }
  static void expect_same_bits(const Tensor& got, const Tensor& want, const std::string& what) {
    ASSERT_EQ(got.bytes(), want.bytes()) << what;
    std::int64_t different = 0, first = -1;
    for (std::int64_t i = 0; i < want.shape().elements(); ++i) {
      if (std::memcmp(got.as<std::byte>() + i * std::int64_t(bytes_of(got.dtype())), want.as<std::byte>() + i * std::int64_t(bytes_of(want.dtype())),
                      bytes_of(want.dtype())) == 0)
        continue;
      if (different++ == 0) first = i;
    }
    EXPECT_EQ(different, 0) << what << " of " << want.shape().elements() << "; first at " << first << ": " << element(got, first) << " against "
                            << element(want, first);
  }

  // LoRAs of bf16 numbers for a projection [N, K]: one over all outputs and, if asked, one over the upper half.
  std::vector<LoraTerm> terms(std::int64_t n, std::int64_t k, std::int64_t rank, bool has_two, DType dtype = DType::bf16) {
    golden::LoraBuilder& builder = builders_.emplace_back();
    std::vector<LoraTerm> list;
    const auto add = [&](const std::string& module, std::int64_t first, std::int64_t out, std::int64_t r) {
      builder.add_pair(module, out, k, r, std::uint32_t(random()()), dtype);
      list.push_back({.module = module,
                      .down = builder.tensor(module + ".lora_A.weight"),
                      .up = builder.tensor(module + ".lora_B.weight"),
                      .scale = -0.7f,
                      .first_row = first});
    };
    add("all", 0, n, rank);
    if (has_two) add("upper", n / 2, n - n / 2, rank + 3);
    return list;
  }
  // y += terms, against float64, each path within the roundings that it makes. `y` holds what was there before on both devices.
  void expect_lora(const TensorView& x, std::span<const LoraTerm> lora, DType floats, const Tensor& y, const std::string& what) {
    ExecContext ctx = with_pool();
    const LoraTerms named{{"p", {lora.begin(), lora.end()}}};
    const nn::PlacedLoras placed = nn::place_loras(ctx, named, floats);
    EXPECT_EQ(std::int64_t(placed.memory.bytes()), nn::placed_lora_bytes(named, floats));
    const Tensor gpu_x = to_gpu(x), gpu_y = to_gpu(y);
    nn::add_lora(ctx, gpu_x, placed.terms.at("p"), gpu_y);
    const Tensor on_gpu = to_cpu(gpu_y);
    Tensor on_cpu(y.dtype(), y.shape());
    std::memcpy(on_cpu.as<void>(), y.as<void>(), y.bytes());
    nn::add_lora(cpu(), x, lora, on_cpu);

    const std::int64_t rows = x.rows(), k = x.columns(), n = y.shape()[1];
    const Tensor xs = to_float_tensor(x), before = to_float_tensor(y);
    const bool rounds_inner = x.dtype == DType::bf16 && floats == DType::bf16;
    const double store = half_step(y.dtype());
    std::vector<double> exact(std::size_t(rows * n)), bound(exact.size(), 0.0);
    for (std::size_t i = 0; i < exact.size(); ++i) exact[i] = before.as<float>()[i];
    for (const LoraTerm& term : lora) {
      const Tensor a = to_float_tensor(term.down), b = to_float_tensor(term.up);
      const std::int64_t rank = term.down.rows();
      for (std::int64_t m = 0; m < rows; ++m) {
        std::vector<double> inner(std::size_t(rank), 0.0), error(std::size_t(rank), 0.0);
        for (std::int64_t r = 0; r < rank; ++r) {
          double size = 0;
          for (std::int64_t i = 0; i < k; ++i) {
            const double product = double(a.as<float>()[r * k + i]) * xs.as<float>()[m * k + i];
            inner[std::size_t(r)] += product;
            size += std::fabs(product);
          }
          // float32 rows are three sums of K products each against bf16 matrices.
          error[std::size_t(r)] = kUnit * (4.0 * double(k) + 8) * size + (rounds_inner ? half_step(DType::bf16) * std::fabs(inner[std::size_t(r)]) : 0.0);
        }
        for (std::int64_t i = 0; i < term.up.rows(); ++i) {
          const std::size_t at = std::size_t(m * n + term.first_row + i);
          double sum = 0, size = 0, lost = 0;
          for (std::int64_t r = 0; r < rank; ++r) {
            const double factor = b.as<float>()[i * rank + r];
            sum += factor * inner[std::size_t(r)];
            size += std::fabs(factor) * (std::fabs(inner[std::size_t(r)]) + error[std::size_t(r)]);
            lost += std::fabs(factor) * error[std::size_t(r)];
          }
          exact[at] += double(term.scale) * sum;
          bound[at] += std::fabs(double(term.scale)) * (lost + kUnit * (4.0 * double(rank) + 16) * size);
          bound[at] += (store + 4 * kUnit) * (std::fabs(exact[at]) + bound[at]);
          if (y.dtype() != DType::f32) bound[at] += store * std::fabs(double(term.scale) * sum);  // cuBLASLt may round the product before it adds
        }
      }
    }
    double worst_gpu = 0, worst_cpu = 0, moved = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double gpu_error = std::fabs(element(on_gpu, std::int64_t(i)) - exact[i]), cpu_error = std::fabs(element(on_cpu, std::int64_t(i)) - exact[i]);
      ASSERT_LE(gpu_error, bound[i]) << what << " at row " << i / std::size_t(n) << ", column " << i % std::size_t(n) << ": "
                                     << element(on_gpu, std::int64_t(i)) << " on the GPU, " << element(on_cpu, std::int64_t(i)) << " on the CPU, exactly "
                                     << exact[i];
      ASSERT_LE(cpu_error, bound[i]) << what << " on the CPU";
      if (bound[i] > 0) worst_gpu = std::max(worst_gpu, gpu_error / bound[i]), worst_cpu = std::max(worst_cpu, cpu_error / bound[i]);
      moved = std::max(moved, std::fabs(exact[i] - before.as<float>()[i]));
    }
    EXPECT_GT(moved, 0.1) << what << ": a LoRA that small tests nothing";
    std::printf("%-60s worst share of the bound: GPU %.3f, CPU %.3f\n", what.c_str(), worst_gpu, worst_cpu);
  }

  static constexpr std::int64_t kPart = 48;
  std::deque<golden::LoraBuilder> builders_{};  // terms look into their tensors

 private:
  ThreadPool pool_{2};
  golden::CpuContext cpu_{};
  golden::TemporaryFolder temporary_{};
  std::deque<WeightStore> stores_{};
};

// Codes are bit-equal (numerics.md section 3), sums exact (4), the epilogue in one order (5): the bits of the CPU.
TEST_F(FormatsCuda, smoothed_int8_gives_the_bits_of_the_cpu) {
  ExecContext ctx = with_pool();
  for (const Smooth smooth : {Smooth::none, Smooth::same, Smooth::different}) {
    for (const std::int64_t k : {40, 96, 4608}) {
      const WeightStore& store = int8_store(k, smooth);
      for (const bool in_pairs : {false, true}) {
        LinearUse use(kW8A8);
        use.pairs_rows = in_pairs;
        const Linear on_gpu(ctx, store, {{"a"}, {"b"}}, false, use), on_cpu(cpu(), store, {{"a"}, {"b"}}, false, use);
        const std::string what = fmt::format("smoothing {}, K {}, pairs {}", int(smooth), k, in_pairs);
        EXPECT_EQ(on_gpu.parts().size(), smooth == Smooth::different ? 2u : 1u) << what;
        EXPECT_EQ(on_gpu.has_pairs(), in_pairs && smooth != Smooth::different) << what;
        EXPECT_EQ(on_gpu.input().is_quantized, smooth == Smooth::none) << what;
        const nn::LinearPlan plan = nn::plan_linear(store, {{"a"}, {"b"}}, false, use);
        EXPECT_EQ(plan.memory.bytes, on_gpu.owned_bytes()) << what;
        EXPECT_EQ(plan.has_pairs, on_gpu.has_pairs()) << what;
        EXPECT_EQ(plan.input, on_gpu.input()) << what;
        for (const DType dtype : {DType::f32, DType::bf16}) {
          for (const std::int64_t rows : {1, 70}) {
            const Tensor x = gaussian(random(), dtype, {rows, k}, 3);
            expect_same_bits(run(ctx, on_gpu, x), run(cpu(), on_cpu, x), fmt::format("{}, {} rows of {}", what, rows, name_of(dtype)));
            expect_same_bits(run(ctx, on_gpu, x, DType::bf16), run(cpu(), on_cpu, x, DType::bf16), what + " to bf16");
          }
        }
      }
    }
  }
}

TEST_F(FormatsCuda, dequantised_rows_give_the_bits_of_the_cpu) {
  ExecContext ctx = with_pool();
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const std::int64_t columns : {1, 8, 16, 40, 4608}) {
      for (const std::int64_t offset : {0, 16, 1}) {
        Tensor q(DType::s8, {37, columns + offset}), scale(DType::f32, {37});
        for (std::int64_t i = 0; i < q.shape().elements(); ++i) q.as<std::int8_t>()[i] = std::int8_t(int(random()() % 256) - 128);
        for (std::int64_t m = 0; m < 37; ++m) scale.as<float>()[m] = m == 3 ? std::nanf("") : m == 4 ? 0.0f : 0.01f * float(m + 1);
        const Tensor gpu_q = to_gpu(q), gpu_scale = to_gpu(scale), want(dtype, {37, columns});
        const Tensor got = to_gpu(Tensor::zeros(dtype, {37, columns + offset}));
        dequantize_rows(ctx, {gpu_q.view().column_range(offset, columns), gpu_scale}, got.view().column_range(offset, columns));
        dequantize_rows(cpu(), {q.view().column_range(offset, columns), scale}, want);
        const Tensor all = to_cpu(got);
        for (std::int64_t m = 0; m < 37; ++m) {
          for (std::int64_t k = 0; k < columns; ++k) {
            const float a = element(all, m * (columns + offset) + offset + k), b = element(want, m * columns + k);
            ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b)))
                << name_of(dtype) << " [37, " << columns << "] offset " << offset << " at " << m << ", " << k << ": " << a << " against " << b;
          }
          for (std::int64_t k = 0; k < offset; ++k) ASSERT_EQ(element(all, m * (columns + offset) + k), 0) << "wrote outside its columns";
        }
      }
    }
  }
}

// The same bf16 numbers on both devices, so exact products; sums in another order. K additions each, of whose operands none is larger than Σ |x w|.
TEST_F(FormatsCuda, dequantised_products_equal_the_cpu) {
  ExecContext ctx = with_pool();
  for (const Smooth smooth : {Smooth::none, Smooth::same, Smooth::different}) {
    for (const std::int64_t k : {40, 96, 4608}) {
      const WeightStore& store = int8_store(k, smooth);
      LinearUse use(kDequant);
      use.pairs_rows = true;
      const Linear on_gpu(ctx, store, {{"a"}, {"b"}}, false, use), on_cpu(cpu(), store, {{"a"}, {"b"}}, false, use);
      EXPECT_FALSE(on_gpu.has_pairs());
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const std::int64_t rows = 70;
        const Tensor x = gaussian(random(), dtype, {rows, k}, 3);
        // |x̂| <= absmax of the row's smoothed numbers and |ŵ| <= 127 scale: with codes as they are, in float64, from the CPU's own parts.
        std::vector<double> size(std::size_t(rows * 2 * kPart), 0.0);
        std::int64_t first = 0;
        for (const LinearWeights& part : on_cpu.parts()) {
          const Tensor q(DType::s8, {rows, k}), scale(DType::f32, {rows});
          quantize_rows(cpu(), x, {q, scale}, part.smoothing);
          for (std::int64_t m = 0; m < rows; ++m) {
            for (std::int64_t n = 0; n < part.out_features(); ++n) {
              double sum = 0;
              for (std::int64_t i = 0; i < k; ++i) sum += std::abs(int(q.as<std::int8_t>()[m * k + i]) * int(part.weight.row<std::int8_t>(n)[i]));
              size[std::size_t(m * 2 * kPart + first + n)] = sum * scale.as<float>()[m] * part.scale->as<float>()[n] * (1 + 0x1p-6);
            }
          }
          first += part.out_features();
        }
        expect_within(
            run(ctx, on_gpu, x), run(cpu(), on_cpu, x), [&](std::int64_t i) { return kUnit * (4.0 * double(k) + 8) * size[std::size_t(i)]; },
            fmt::format("smoothing {}, K {}, {}", int(smooth), k, name_of(dtype)));
      }
    }
  }
}

TEST_F(FormatsCuda, loras_equal_the_cpu) {
  for (const auto& [x_type, floats, y_type] : {std::tuple{DType::bf16, DType::bf16, DType::bf16}, std::tuple{DType::f32, DType::bf16, DType::f32},
                                               std::tuple{DType::f32, DType::f32, DType::f32}, std::tuple{DType::bf16, DType::bf16, DType::f32}}) {
    for (const std::int64_t rank : {1, 4, 16, 61}) {
      for (const auto& [rows, n, k] : {std::tuple{1, 48, 40}, std::tuple{70, 96, 128}, std::tuple{133, 200, 1024}, std::tuple{5, 66, 50}}) {
        const Tensor x = gaussian(random(), x_type, {rows, k}), y = gaussian(random(), y_type, {rows, n});
        expect_lora(x, terms(n, k, rank, true), floats, y,
                    fmt::format("x {}, A and B {}, y {}, rank {}, [{}, {}] K {}", name_of(x_type), name_of(floats), name_of(y_type), rank, rows, n, k));
      }
    }
  }
}

// Numbers that bf16 does not hold are rounded where they are placed, those that it holds are not; and nothing of a file is read on a GPU.
TEST_F(FormatsCuda, placed_loras_hold_the_numbers_of_the_file) {
  ExecContext ctx = with_pool();
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const LoraTerms loras{{"p", terms(30, 50, 5, true, dtype)}, {"q", terms(8, 16, 8, false, dtype)}};
    for (const DType floats : {DType::bf16, DType::f32}) {
      const nn::PlacedLoras placed = nn::place_loras(ctx, loras, floats);
      for (const auto& [projection, list] : loras) {
        for (std::size_t t = 0; t < list.size(); ++t) {
          const LoraTerm& term = placed.terms.at(projection)[t];
          for (const auto& [view, want] : {std::pair{term.down, list[t].down}, std::pair{term.up, list[t].up}}) {
            const Tensor got = to_float_tensor(to_cpu(view)), from = to_float_tensor(want);
            for (std::int64_t m = 0; m < view.rows(); ++m) {
              for (std::int64_t i = 0; i < view.columns(); ++i) {
                const bool is_there = m < want.rows() && i < want.columns();
                const float value = is_there ? from.as<float>()[m * want.columns() + i] : 0.0f;
                ASSERT_EQ(got.as<float>()[m * view.columns() + i], floats == DType::bf16 ? to_float(to_bf16(value)) : value)
                    << projection << " " << m << " " << i;
              }
            }
          }
        }
      }
    }
  }
  const std::vector<LoraTerm> on_host = terms(48, 40, 4, false);
  const Tensor x = to_gpu(gaussian(random(), DType::f32, {3, 40})), y = to_gpu(gaussian(random(), DType::f32, {3, 48}));
  EXPECT_THROW(nn::add_lora(ctx, x, on_host, y), InvalidArgument);
}

// Int8 weights in pairs, smoothed and rotated or not: the product is what it is without the LoRA, whose own sum is added to it.
TEST_F(FormatsCuda, a_lora_is_added_to_the_product_as_it_is) {
  ExecContext ctx = with_pool();
  for (const Smooth smooth : {Smooth::none, Smooth::same, Smooth::different}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      constexpr std::int64_t kIn = 96, kRows = 70;
      const WeightStore& store = int8_store(kIn, smooth);
      LinearUse use(kW8A8);
      use.pairs_rows = true;
      const Linear base(ctx, store, {{"a"}, {"b"}}, false, use);
      const LoraTerms named{{"p", terms(2 * kPart, kIn, 16, true)}};
      const nn::PlacedLoras placed = nn::place_loras(ctx, named, DType::bf16);
      const nn::LoraLinear with(base, placed.terms.at("p")), without(base, {});
      EXPECT_FALSE(with.input().is_quantized);
      const Tensor x = to_gpu(gaussian(random(), dtype, {kRows, kIn}));
      const Tensor want(dtype, {kRows, 2 * kPart}, gpu().device), got(dtype, {kRows, 2 * kPart}, gpu().device);
      without.forward(ctx, x.view(), {}, want);
      nn::add_lora(ctx, x, placed.terms.at("p"), want);
      with.forward(ctx, x.view(), {}, got);
      expect_same_bits(to_cpu(got), to_cpu(want), fmt::format("smoothing {}, {}", int(smooth), name_of(dtype)));
    }
  }
}

// Whole denoisers.
class FormatModelsCuda : public FormatsCuda {
 protected:
  static constexpr int kGridH = 6, kGridW = 4;
  const std::vector<float> times_{0.0f, 0.37f, 1.0f};

  std::vector<Tensor> velocities(ExecContext& ctx, const Reference& reference, const ideogram4::Dit& dit, const LoraTerms* lora) {
    const Tensor features = reference.features(), noise = reference.noise();
    const auto session = dit.prepare(ctx, kGridH, kGridW, features, times_, lora);
    std::vector<Tensor> moved, result;
    const TensorView latents = nn::place(ctx, noise, moved, "latents");
    const Tensor velocity(DType::f32, noise.shape(), ctx.device, "velocity");  // one address: a GPU runs, records and replays a pass
    for (int step = 0; step < int(times_.size()); ++step) {
      dit.forward(ctx, *session, step, latents, velocity);
      result.push_back(nn::to_cpu(ctx, velocity, "velocity"));
    }
    return result;
  }
  std::vector<Tensor> velocities(ExecContext& ctx, const Reference& reference, const fs::path& folder, const Precision& precision, const LoraTerms* lora) {
    return velocities(ctx, reference, ideogram4::Dit(ctx, folder, "transformer", precision), lora);
  }
  // A LoRA for every layer, or for those that `wants` picks.
  LoraFile lora_for(const fs::path& transformer, const std::function<bool(const std::string&)>& wants, std::int64_t rank, float alpha = 0.5f) {
    golden::LoraBuilder builder;
    std::uint32_t seed = 100;
    for (const LoraTarget& target : ideogram4::lora_targets(ideogram4::Config::read(transformer), true)) {
      if (target.module.ends_with("attention.qkv") || target.module.ends_with("attention.o") || target.module == "final_linear" || !wants(target.module))
        continue;
      builder.add_pair("transformer." + target.module, target.rows, target.columns, rank, seed += 2, DType::bf16);
      builder.add_number("transformer." + target.module + ".alpha", alpha * float(rank));
    }
    return LoraFile(builder.write(folder() / fmt::format("lora-{}.safetensors", files_++)));
  }
  static LoraFit fit(const LoraFile& file, const fs::path& transformer) {
    const ideogram4::Config config = ideogram4::Config::read(transformer);
    return fit_lora(file, 1, ideogram4::lora_targets(config, true), ideogram4::lora_targets(config, false));
  }
  // The error against float32 is of the CPU's kind and another sample of it: `most` times the CPU's at most, and not as if nothing had been rounded.
  static void expect_errs_no_more(const std::vector<Tensor>& gpu, const std::vector<Tensor>& own, const std::vector<Tensor>& exact, double most,
                                  const std::string& what) {
    for (const std::size_t i : {std::size_t(0), std::size_t(2)}) {  // bf16 rounds the time: t = 0 and 1 are exact
      const double on_gpu = golden::relative_l2(gpu[i], exact[i]), on_cpu = golden::relative_l2(own[i], exact[i]);
      std::printf("%-50s step %zu: relative L2 %.3e on the GPU, %.3e on the CPU\n", what.c_str(), i, on_gpu, on_cpu);
      EXPECT_LE(on_gpu, most * on_cpu) << what;
      EXPECT_GE(on_gpu, 0.3 * on_cpu) << what << ": suspiciously exact";
    }
  }
  // The reference denoiser with its block layers smoothed and in int8: parts that read the same rows by one vector in the first layer, each by its own in the
  // others.
  fs::path smoothed_model(const Reference& reference) {
    golden::EditableCheckpoint checkpoint(reference.folder / "transformer" / golden::kDiffusersFile);
    std::vector<std::string> modules;
    for (const auto& [name, view] : checkpoint.tensors()) {
      const bool is_block = name.starts_with("layers.") && (name.find(".attention.to_") != name.npos || name.find(".feed_forward.w") != name.npos);
      if (is_block && name.ends_with(".weight")) modules.push_back(name.substr(0, name.size() - 7));
    }
    for (const std::string& module : modules) {
      Tensor w = to_float_tensor(checkpoint.tensors().at(module + ".weight"));
      const std::int64_t rows = w.shape()[0], columns = w.shape()[1];
      const bool shares = module.starts_with("layers.0.");
      const bool is_output = module.find("to_out") != module.npos || module.ends_with("w2");
      std::mt19937 bits(std::uint32_t(shares && !is_output ? std::size_t(columns) : std::hash<std::string>{}(module)));
      const TensorView smooth = checkpoint.add(module + ".smooth", DType::f32, {columns}), codes = checkpoint.add(module + ".wq", DType::s8, {rows, columns}),
                       scale = checkpoint.add(module + ".ws", DType::f32, {rows});
      std::normal_distribution<float> gauss;
      for (std::int64_t k = 0; k < columns; ++k) smooth.as<float>()[k] = std::exp2(0.5f * gauss(bits));
      for (std::int64_t n = 0; n < rows; ++n) {
        for (std::int64_t k = 0; k < columns; ++k) w.as<float>()[n * columns + k] *= smooth.as<float>()[k];
        scale.as<float>()[n] = quantize_weight_row(w.as<float>() + n * columns, columns, codes.row<std::int8_t>(n));
      }
      checkpoint.tensors().erase(module + ".weight");
    }
    const fs::path to = folder() / ("smoothed-" + reference.folder.filename().string()) / "transformer";
    checkpoint.write(to / golden::kDiffusersFile);
    golden::write_config(reference.folder / "transformer", to, [](nlohmann::json&) {});
    return to;
  }

 private:
  int files_ = 0;
};

TEST_F(FormatModelsCuda, smoothed_denoisers_err_no_more_than_the_cpu) {
  for (const std::string& name : golden::reference_names()) {
    const Reference reference(name);
    const fs::path model = smoothed_model(reference);
    ExecContext ctx = with_pool();
    const std::vector<Tensor> exact = velocities(cpu(), reference, model, precision::f32, nullptr);
    for (const Precision& recipe : {kW8A8, kDequant}) {
      expect_errs_no_more(velocities(ctx, reference, model, recipe, nullptr), velocities(cpu(), reference, model, recipe, nullptr), exact, 1.25,
                          fmt::format("{} smoothed, {}", name, recipe.name));
    }
  }
}

TEST_F(FormatModelsCuda, dequantised_denoisers_err_no_more_than_the_cpu) {
  for (const std::string& name : golden::reference_names()) {
    const Reference reference(name);
    const fs::path model = reference.folder / "transformer";
    ExecContext ctx = with_pool();
    expect_errs_no_more(velocities(ctx, reference, model, kDequant, nullptr), velocities(cpu(), reference, model, kDequant, nullptr),
                        velocities(cpu(), reference, model, precision::f32, nullptr), 1.25, name + " w8a8-dequant");
  }
}

// The same bound as without a LoRA (model_test.cpp) in float32. In bf16 a LoRA's inner rows are rounded as its result is: √2 of the error.
TEST_F(FormatModelsCuda, denoisers_with_loras_equal_the_cpu) {
  for (const std::string& name : golden::reference_names()) {
    const Reference reference(name);
    const fs::path model = reference.folder / "transformer";
    for (const std::int64_t rank : {3, 16}) {
      const LoraFile file = lora_for(model, [](const std::string&) { return true; }, rank);
      const LoraFit lora = fit(file, model);
      ASSERT_EQ(lora.keys_applied, file.keys());
      ExecContext ctx = with_pool();
      const std::vector<Tensor> exact = velocities(cpu(), reference, model, precision::f32, &lora.conditional);
      const std::vector<Tensor> gpu = velocities(ctx, reference, model, precision::f32, &lora.conditional);
      for (std::size_t i = 0; i < gpu.size(); ++i) {
        const double apart = golden::relative_l2(gpu[i], exact[i]);
        std::printf("%s rank %d float32 step %zu: relative L2 %.2e\n", name.c_str(), int(rank), i, apart);
        EXPECT_LE(apart, 4e-5) << name << " rank " << rank;
      }
      for (const Precision& recipe : {precision::bf16, kW8A8, kDequant}) {
        expect_errs_no_more(velocities(ctx, reference, model, recipe, &lora.conditional), velocities(cpu(), reference, model, recipe, &lora.conditional), exact,
                            1.25 * std::sqrt(2.0), fmt::format("{} rank {}, {}", name, rank, recipe.name));
      }
    }
  }
}

// One session's LoRA is nobody else's: the same weights give the bits of before, and the LoRA's own bits when it comes again. One on w1 alone meets rows in
// pairs.
TEST_F(FormatModelsCuda, sessions_do_not_see_each_others_loras) {
  const Reference reference("tiny-hd64");
  const fs::path model = reference.folder / "transformer";
  for (const Precision& recipe : {kW8A8, precision::bf16}) {
    ExecContext ctx = with_pool();
    const ideogram4::Dit dit(ctx, model, "transformer", recipe);
    const std::vector<Tensor> before = velocities(ctx, reference, dit, nullptr);
    for (const char* kind : {"feed_forward.w1", "attention.to_k", "feed_forward.w2", "adaln_modulation", "final_layer.linear"}) {
      const LoraFile file = lora_for(model, [&](const std::string& module) { return module.ends_with(kind); }, 4);
      const LoraFit lora = fit(file, model);
      const std::vector<Tensor> with = velocities(ctx, reference, dit, &lora.conditional), again = velocities(ctx, reference, dit, &lora.conditional);
      const std::vector<Tensor> after = velocities(ctx, reference, dit, nullptr);
      for (std::size_t i = 0; i < before.size(); ++i) {
        expect_same_bits(after[i], before[i], fmt::format("{} after {}", recipe.name, kind));
        expect_same_bits(again[i], with[i], fmt::format("{} with {} again", recipe.name, kind));
        EXPECT_GE(golden::relative_l2(with[i], before[i]), 1e-3) << recipe.name << " " << kind;
      }
    }
  }
}

// Pictures of the demo model under budgets: the same bytes streamed and resident, within the memory that was planned.
TEST_F(FormatModelsCuda, loras_and_dequantised_products_keep_the_plan) {
  const fs::path model = golden::demo_model();
  const LoraFile file = lora_for(model / "transformer", [](const std::string&) { return true; }, 12, 0.1f);
  for (const auto& [recipe, has_lora] : {std::pair{precision::w8a8, true}, std::pair{precision::bf16, true}, std::pair{precision::w8a8_dequant, false}}) {
    Request request{.prompt = "three orange stars in a row on a blue background", .width = 256, .height = 192, .steps = 3, .guidance = {3.0f}, .batch = 2};
    if (has_lora) request.loras.push_back({.path = file.path().string()});
    const auto open = [&, &how = recipe](std::optional<std::int64_t> budget) {
      return Pipeline({.model = model, .precision = how, .device = gpu().device, .threads = 2, .vram_bytes = budget});
    };
    const LoraFit lora = fit(file, model / "transformer");
    const ModelMemory memory(ModelIndex::read(model), precision::on_gpu(recipe, sm()), precision::plain_on_gpu(recipe, sm()), gpu().device);
    constexpr std::int64_t kTokens = 60;  // more than the prompt has
    const ResidencyRows rows =
        memory.rows({.width = 256, .height = 192, .steps = 3, .text_tokens = kTokens, .cond_lora = has_lora ? &lora.conditional : nullptr});
    EXPECT_EQ(rows.loras > 0, has_lora);
    const std::int64_t least = smallest_budget(memory.weights(), rows);
    std::vector<Image> want;
    for (const std::optional<std::int64_t> budget : {std::optional<std::int64_t>(), std::optional(least)}) {
      Pipeline pipeline = open(budget);
      Observer observer;
      const ResidencyPlan plan = *pipeline.residency(pipeline.plan(request), kTokens);
      const std::int64_t before = memory_count(gpu().device).now;
      reset_memory_peak(gpu().device);
      const std::vector<Image> got = pipeline.run(pipeline.plan(request), observer, {});
      const std::int64_t peak = memory_count(gpu().device).peak - before, planned = plan.peak_bytes() - kRuntimeBytes;
      std::printf("%s%s, %s: peak %.2f MiB counted, %.2f MiB planned, %d layers streamed\n", std::string(recipe.name).c_str(), has_lora ? " with a LoRA" : "",
                  budget ? "the smallest budget" : "no budget", double(peak) / 1048576, double(planned) / 1048576,
                  plan.choice.cond_streamed + plan.choice.uncond_streamed);
      EXPECT_LE(peak, planned) << recipe.name;
      EXPECT_EQ(plan.choice.streams(), budget.has_value()) << recipe.name;
      if (want.empty()) want = got;
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].rgb, want[i].rgb) << recipe.name << " picture " << i;
      EXPECT_EQ(pipeline.run(pipeline.plan(request), observer, {}).front().rgb, want.front().rgb) << recipe.name << ", again";
      if (has_lora) {
        Request plain = request;
        plain.loras.clear();
        EXPECT_NE(pipeline.run(pipeline.plan(plain), observer, {}).front().rgb, want.front().rgb) << recipe.name << ": the LoRA changed nothing";
      }
    }
  }
}

// For compute-sanitizer, one of each.
TEST_F(FormatsCuda, sanitize_smoothed_rows_in_pairs) {
  ExecContext ctx = with_pool();
  for (const std::int64_t k : {40, 608}) {
    LinearUse use(kW8A8);
    use.pairs_rows = true;
    const Linear linear(ctx, int8_store(k, Smooth::same), {{"a"}, {"b"}}, false, use);
    EXPECT_TRUE(all_finite(run(ctx, linear, gaussian(random(), DType::bf16, {9, k}))));
  }
}

TEST_F(FormatsCuda, sanitize_dequantised_products) {
  ExecContext ctx = with_pool();
  for (const std::int64_t k : {40, 608}) {
    const Linear linear(ctx, int8_store(k, Smooth::different), {{"a"}, {"b"}}, false, LinearUse(kDequant));
    EXPECT_TRUE(all_finite(run(ctx, linear, gaussian(random(), DType::bf16, {9, k}))));
  }
}

TEST_F(FormatsCuda, sanitize_loras) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Tensor x = gaussian(random(), dtype, {9, 96}), y = gaussian(random(), dtype, {9, 96});
    expect_lora(x, terms(96, 96, 5, true), DType::bf16, y, fmt::format("sanitize {}", name_of(dtype)));
  }
}

TEST_F(FormatModelsCuda, sanitize_a_small_denoiser_with_a_lora) {
  const Reference reference("tiny-hd64");
  const fs::path model = reference.folder / "transformer";
  const LoraFile file = lora_for(model, [](const std::string&) { return true; }, 4);
  const LoraFit lora = fit(file, model);
  ExecContext ctx = with_pool();
  for (const Tensor& velocity : velocities(ctx, reference, model, kW8A8, &lora.conditional)) EXPECT_TRUE(all_finite(velocity));
}

}  // namespace
}  // namespace octavo
