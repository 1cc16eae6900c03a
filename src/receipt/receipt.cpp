#include "receipt/receipt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace octavo {

std::string_view name_of(Verdict verdict) { return verdict == Verdict::good ? "good" : verdict == Verdict::check ? "check" : "bad"; }

std::string VerdictRule::text() const {
  return fmt::format(
      "good: every int8 layer's output is off by at most {:.3g} % and every picture's SSIM is at least {:.2f}. "
      "bad: one layer is off by more than {:.3g} %, or one picture's SSIM is under {:.2f}. check: everything else, and whatever was not measured.",
      100 * good_output_error, good_ssim, 100 * bad_output_error, bad_ssim);
}

bool Receipt::was_measured() const { return worst_layer() != nullptr; }

const QuantizedLayer* Receipt::worst_layer() const {
  const QuantizedLayer* worst = nullptr;
  for (const ReceiptFile& file : files) {
    for (const QuantizedLayer& layer : file.report.layers) {
      if (layer.is_quantized && layer.was_measured() && (worst == nullptr || layer.output_error > worst->output_error)) worst = &layer;
    }
  }
  return worst;
}

Judgement Receipt::judge(const VerdictRule& rule) const {
  Judgement judgement{Verdict::good, {}};
  const auto note = [&](Verdict verdict, std::string reason) {
    judgement.verdict = std::max(judgement.verdict, verdict);
    judgement.reasons.push_back(std::move(reason));
  };
  if (const QuantizedLayer* worst = worst_layer()) {
    const Verdict verdict = worst->output_error <= rule.good_output_error  ? Verdict::good
                            : worst->output_error <= rule.bad_output_error ? Verdict::check
                                                                           : Verdict::bad;
    note(verdict, fmt::format("The worst int8 layer, {}, is off by {:.2f} % of its output ({:.1f} dB).", worst->module, 100 * worst->output_error,
                              snr_db(worst->output_error)));
  } else {
    note(Verdict::check, "No layer's output was measured.");
  }
  const auto worst = std::min_element(pictures.begin(), pictures.end(),
                                      [](const ReceiptPicture& a, const ReceiptPicture& b) { return a.difference.ssim < b.difference.ssim; });
  if (worst != pictures.end()) {
    const double ssim = worst->difference.ssim;
    const Verdict verdict = ssim >= rule.good_ssim ? Verdict::good : ssim >= rule.bad_ssim ? Verdict::check : Verdict::bad;
    note(verdict,
         fmt::format("The picture that changed most has an SSIM of {:.3f} and a PSNR of {:.1f} dB (seed {}).", ssim, worst->difference.psnr_db, worst->seed));
  } else {
    note(Verdict::check, "No pictures were drawn.");
  }
  return judgement;
}

}  // namespace octavo
