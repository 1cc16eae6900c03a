// The facts about a quantised model, and what follows from them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convert/calibration.h"
#include "convert/quantize.h"
#include "octavo/image.h"
#include "receipt/picture_difference.h"

namespace octavo {

// One component's file.
struct ReceiptFile {
  std::string component{};  // "transformer"
  std::string path{};
  QuantizeReport report{};
  std::map<std::string, InputSummary> inputs{};  // by module; empty without calibration
};

// One prompt and seed, drawn by the source in float32 and by the result in int8.
struct ReceiptPicture {
  std::string prompt{};
  std::uint64_t seed = 0;
  Image before{};
  Image after{};
  PictureDifference difference{};
};

enum class Verdict : std::uint8_t { good, check, bad };
std::string_view name_of(Verdict verdict);

// The limits that decide. A picture may change at random, as another seed would: so SSIM is judged by the worst picture, generously.
struct VerdictRule {
  double good_output_error = 0.03;  // of every int8 layer: at most
  double bad_output_error = 0.15;   // of one int8 layer: over
  double good_ssim = 0.90;          // of every picture: at least
  double bad_ssim = 0.60;           // of one picture: under

  std::string text() const;
};

struct Judgement {
  Verdict verdict = Verdict::check;
  std::vector<std::string> reasons{};  // at least one line
};

struct Receipt {
  std::string source{};
  std::string output{};
  std::string recipe{};
  std::string version{};
  std::vector<ReceiptFile> files{};
  std::vector<ReceiptPicture> pictures{};
  std::string calibration{};     // "4 built-in prompts", or why there was none
  std::int64_t other_bytes = 0;  // of the model's other files, the same before and after

  bool was_measured() const;
  // The int8 layer with the largest output error; null if none was measured.
  const QuantizedLayer* worst_layer() const;
  // `good` if every measured int8 layer and every picture is; `bad` if one of them is; `check` between, or if nothing was measured or drawn.
  Judgement judge(const VerdictRule& rule = {}) const;
};

}  // namespace octavo
