#include "weights/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/nearest_names.h"
#include "octavo/error.h"

namespace octavo {
namespace {

enum class LoraPart : std::uint8_t { down, up, alpha };

struct Ending {
  std::string_view text{};
  LoraPart part{};
};
// PEFT may leave the adapter's name, "default", in.
constexpr Ending kEndings[] = {{".lora_A.weight", LoraPart::down},
                               {".lora_B.weight", LoraPart::up},
                               {".lora_A.default.weight", LoraPart::down},
                               {".lora_B.default.weight", LoraPart::up},
                               {".lora_down.weight", LoraPart::down},
                               {".lora_up.weight", LoraPart::up},
                               {".alpha", LoraPart::alpha}};

// Relatives whose update is not B · A: applied as one they would give a wrong picture without a word.
struct Relative {
  std::string_view mark{};
  std::string_view name{};
};
constexpr Relative kRelatives[] = {
    {".dora_scale", "DoRA"}, {".lora_magnitude_vector", "DoRA"}, {".hada_", "LoHa"}, {".lokr_", "LoKr"}, {".lora_mid.", "LoCon with a core"}};

struct Prefix {
  std::string_view text{};
  bool is_unconditional = false;
  bool is_flattened = false;  // underscores stand for dots
};
// The first that fits counts. A LoRA changes the conditional denoiser alone unless its keys say otherwise. spec section 10
constexpr Prefix kPrefixes[] = {{"unconditional_transformer.", true},
                                {"conditional_transformer."},
                                {"transformer."},
                                {"model.diffusion_model."},
                                {"diffusion_model."},
                                {"lora_unet_", false, true},
                                {""}};

struct LoraKeys {
  std::array<const SafetensorsEntry*, 3> by_part{};
  const SafetensorsEntry*& operator[](LoraPart part) { return by_part[std::size_t(part)]; }
  const SafetensorsEntry* operator[](LoraPart part) const { return by_part[std::size_t(part)]; }
};

std::string who_of(const std::filesystem::path& path) { return fmt::format("lora '{}'", path.string()); }

// Exponent bits all set: NaN or infinity.
template <class Bits>
std::int64_t first_not_finite(const TensorView& view, Bits exponent) {
  const Bits* bits = view.as<const Bits>();
  const std::int64_t count = view.shape.elements();
  bool all_finite = true;
  for (std::int64_t i = 0; i < count; ++i) all_finite &= (bits[i] & exponent) != exponent;
  if (all_finite) return -1;
  return std::find_if(bits, bits + count, [&](Bits b) { return (b & exponent) == exponent; }) - bits;
}

std::int64_t first_not_finite(const TensorView& view) {
  switch (view.dtype) {
    case DType::f32:
      return first_not_finite<std::uint32_t>(view, 0x7f800000u);
    case DType::bf16:
      return first_not_finite<std::uint16_t>(view, 0x7f80u);
    default:
      return first_not_finite<std::uint16_t>(view, 0x7c00u);  // f16
  }
}

TensorView matrix_of(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  const std::string who = who_of(file.path());
  if (!entry.dtype || !is_float(*entry.dtype))
    throw Unsupported(fmt::format("{}: tensor '{}' is {}; LoRAs are read from F32, BF16 and F16", who, entry.name, entry.dtype_name));
  if (entry.shape.rank() != 2 || entry.shape.elements() == 0)
    throw DataError(fmt::format("{}: tensor '{}' is {}; a matrix that is not empty is needed", who, entry.name, entry.shape.text()));
  const TensorView view = file.tensor(entry.name);
  if (const std::int64_t bad = first_not_finite(view); bad >= 0) {
    throw DataError(fmt::format("{}: tensor '{}' {} holds a number that is not finite at element {}; the training diverged or the file is damaged", who,
                                entry.name, entry.shape.text(), bad));
  }
  return view;
}

// One number in any type that training tools write.
double alpha_of(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  const std::string who = who_of(file.path());
  if (entry.shape.elements() != 1) throw DataError(fmt::format("{}: tensor '{}' is {}; alpha must be one number", who, entry.name, entry.shape.text()));
  const std::optional<DType> dtype = entry.dtype;
  double alpha = 0;
  if (dtype == DType::s64) {
    alpha = double(*file.tensor(entry.name).as<std::int64_t>());
  } else if (dtype == DType::s32) {
    alpha = double(*file.tensor(entry.name).as<std::int32_t>());
  } else if (dtype && (is_float(*dtype) || dtype == DType::f64)) {
    float value = 0;
    load_as_float(file.tensor(entry.name).data, *dtype, 1, &value);
    alpha = value;
  } else {
    throw Unsupported(fmt::format("{}: tensor '{}' is {}; alpha is read from F64, F32, BF16, F16, I64 and I32", who, entry.name, entry.dtype_name));
  }
  if (!std::isfinite(alpha)) throw DataError(fmt::format("{}: tensor '{}' is {}; alpha must be a finite number", who, entry.name, alpha));
  return alpha;
}

LoraPair pair_of(const SafetensorsFile& file, const std::string& module, const LoraKeys& keys) {
  const std::string who = who_of(file.path());
  const SafetensorsEntry *down = keys[LoraPart::down], *up = keys[LoraPart::up];
  if (down == nullptr || up == nullptr) {
    throw DataError(fmt::format("{}: '{}' has no other half; lora_A and lora_B (or lora_down and lora_up) come in pairs, the file is probably incomplete", who,
                                (down != nullptr ? down : up)->name));
  }
  LoraPair pair{.module = module, .down = matrix_of(file, *down), .up = matrix_of(file, *up)};
  const std::int64_t rank = pair.down.rows();
  if (pair.up.columns() != rank) {
    throw DataError(fmt::format("{}: module '{}' has A {} and B {}; their ranks {} and {} differ, the file is probably damaged", who, module,
                                pair.down.shape.text(), pair.up.shape.text(), rank, pair.up.columns()));
  }
  if (const SafetensorsEntry* alpha = keys[LoraPart::alpha]) {
    pair.scale = alpha_of(file, *alpha) / double(rank);
    ++pair.keys;
  }
  return pair;
}

std::string flattened(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

const Prefix& prefix_of(std::string_view module) {
  return *std::find_if(std::begin(kPrefixes), std::end(kPrefixes), [&](const Prefix& prefix) { return module.starts_with(prefix.text); });
}

// The targets of one denoiser, by both spellings.
struct TargetIndex {
  std::map<std::string, const LoraTarget*, std::less<>> dotted{}, flat{};

  explicit TargetIndex(std::span<const LoraTarget> targets) {
    for (const LoraTarget& target : targets) {
      dotted[target.module] = &target;
      flat[flattened(target.module)] = &target;
    }
  }
  const LoraTarget* find(std::string_view name, bool is_flattened) const {
    const auto& names = is_flattened ? flat : dotted;
    const auto found = names.find(name);
    return found == names.end() ? nullptr : found->second;
  }
};

[[noreturn]] void refuse_other_model(const LoraFile& file, const LoraFit& fit, std::span<const LoraTarget> targets) {
  std::vector<std::string> known;
  for (const LoraTarget& target : targets) known.push_back(target.module);
  constexpr std::size_t kShown = 2;
  std::string examples;
  for (const std::string& name : std::span(fit.left_over).first(std::min(kShown, fit.left_over.size()))) {
    const std::vector<std::string> nearest = nearest_names(std::string_view(name).substr(prefix_of(name).text.size()), known, 1);
    examples += fmt::format("{}'{}'{}", examples.empty() ? "" : ", ", name, nearest.empty() ? "" : fmt::format(" (nearest here: '{}')", nearest.front()));
  }
  throw InvalidArgument(fmt::format("{}: only {} of {} keys have a place in this model, so it was made for another one; without a place: {}{}",
                                    who_of(file.path()), fit.keys_applied, file.keys(), examples, fit.left_over.size() > kShown ? ", ..." : ""));
}

}  // namespace

LoraFile::LoraFile(const std::filesystem::path& path) : file_(path) {
  std::map<std::string, LoraKeys> modules;
  for (const SafetensorsEntry& entry : file_.entries()) {
    for (const Relative& relative : kRelatives) {
      if (entry.name.find(relative.mark) == std::string::npos) continue;
      throw Unsupported(fmt::format("{}: tensor '{}' belongs to a {}; only plain LoRAs, pairs of lora_A and lora_B or of lora_down and lora_up, are built",
                                    who_of(path), entry.name, relative.name));
    }
    const Ending* ending = std::find_if(std::begin(kEndings), std::end(kEndings), [&](const Ending& e) { return entry.name.ends_with(e.text); });
    if (ending == std::end(kEndings)) {
      others_.push_back(entry.name);
      continue;
    }
    const SafetensorsEntry*& place = modules[entry.name.substr(0, entry.name.size() - ending->text.size())][ending->part];
    if (place != nullptr) {
      throw DataError(
          fmt::format("{}: '{}' and '{}' are the same half of one pair; the file was probably merged from two", who_of(path), place->name, entry.name));
    }
    place = &entry;
  }
  for (const auto& [module, keys] : modules) {
    if (keys[LoraPart::down] == nullptr && keys[LoraPart::up] == nullptr) {
      others_.push_back(keys[LoraPart::alpha]->name);
    } else {
      pairs_.push_back(pair_of(file_, module, keys));
    }
  }
  if (pairs_.empty()) {
    throw InvalidArgument(fmt::format("{}: holds no LoRA: none of its {} tensors ends in .lora_A.weight or .lora_down.weight{}", who_of(path), keys(),
                                      others_.empty() ? "" : fmt::format("; the first is '{}'", others_.front())));
  }
}

LoraFit fit_lora(const LoraFile& file, double strength, std::span<const LoraTarget> conditional, std::span<const LoraTarget> unconditional) {
  const TargetIndex of_conditional(conditional), of_unconditional(unconditional);
  LoraFit fit;
  const LoraPair* misfit = nullptr;
  const LoraTarget* misfit_target = nullptr;
  std::size_t misfits = 0;
  for (const LoraPair& pair : file.pairs()) {
    const Prefix& prefix = prefix_of(pair.module);
    const TargetIndex& index = prefix.is_unconditional ? of_unconditional : of_conditional;
    const LoraTarget* target = index.find(std::string_view(pair.module).substr(prefix.text.size()), prefix.is_flattened);
    if (target == nullptr) {
      fit.left_over.push_back(pair.module);
    } else if (pair.up.rows() != target->rows || pair.down.columns() != target->columns) {
      if (misfits++ == 0) {
        misfit = &pair;
        misfit_target = target;
      }
    } else {
      const auto scale = float(strength * pair.scale);
      if (!std::isfinite(scale)) {
        throw InvalidArgument(fmt::format("{}: strength {} times alpha / rank {} of '{}' is past the range of float32; 0.5 to 1 are usual", who_of(file.path()),
                                          strength, pair.scale, pair.module));
      }
      fit.keys_applied += pair.keys;
      LoraTerms& terms = prefix.is_unconditional ? fit.unconditional : fit.conditional;
      terms[target->projection].push_back({.module = pair.module, .down = pair.down, .up = pair.up, .scale = scale, .first_row = target->first_row});
    }
  }
  fit.left_over.insert(fit.left_over.end(), file.other_keys().begin(), file.other_keys().end());
  if (misfit != nullptr) {
    throw InvalidArgument(
        fmt::format("{}: module '{}' changes a layer [{}, {}], but this model's is [{}, {}]{}; the LoRA was made for another model ({} of {} keys fit)",
                    who_of(file.path()), misfit->module, misfit->up.rows(), misfit->down.columns(), misfit_target->rows, misfit_target->columns,
                    misfits > 1 ? fmt::format(" (and {} more like it)", misfits - 1) : "", fit.keys_applied, file.keys()));
  }
  if (2 * fit.keys_applied < file.keys()) refuse_other_model(file, fit, conditional);
  return fit;
}

}  // namespace octavo
